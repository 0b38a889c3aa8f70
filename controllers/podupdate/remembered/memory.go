// Package remembered is what the updater knows of earlier cycles: the requests that it sent, what
// became of them, and what it reported. The rules say what follows from it.
package remembered

import "sync"

// Memory is what is remembered from cycle to cycle, mostly of pods by their UID: a new pod of the
// same name starts afresh (UPSTREAM.md Appendix B 9). It is lost with the process. The zero value
// is ready for use, and it is safe for concurrent use.
type Memory[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

// Recall returns what is remembered; the zero value where nothing is.
func (m *Memory[K, V]) Recall(key K) (v V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, known = m.of[key]
	return v, known
}

// Remember replaces what was remembered before.
func (m *Memory[K, V]) Remember(key K, v V) {
	m.change(key, func(V, bool) (V, bool) { return v, true })
}

// change replaces what is remembered by what a function makes of it, or forgets it where the
// function does not keep it.
func (m *Memory[K, V]) change(key K, f func(v V, known bool) (_ V, keep bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, known := m.of[key]
	v, keep := f(v, known)
	if !keep {
		delete(m.of, key)
		return
	}
	if m.of == nil {
		m.of = map[K]V{}
	}
	m.of[key] = v
}

// Forget drops what is remembered.
func (m *Memory[K, V]) Forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, key)
}

// Len is how many keys are remembered.
func (m *Memory[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of)
}

// Keep forgets all that is not live.
func (m *Memory[K, V]) Keep(live func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.of {
		if !live(key) {
			delete(m.of, key)
		}
	}
}
