package updater

import "sync"

// memory is what is remembered from cycle to cycle, mostly of pods by their UID: a new pod of the
// same name starts afresh (UPSTREAM.md Appendix B 9). It is lost with the process. The zero value
// is ready for use, and it is safe for concurrent use.
type memory[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

// recall returns what is remembered; the zero value where nothing is.
func (m *memory[K, V]) recall(key K) (v V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, known = m.of[key]
	return v, known
}

// remember replaces what was remembered before.
func (m *memory[K, V]) remember(key K, v V) {
	m.change(key, func(V, bool) (V, bool) { return v, true })
}

// change replaces what is remembered by what a function makes of it, or forgets it where the
// function does not keep it.
func (m *memory[K, V]) change(key K, f func(v V, known bool) (_ V, keep bool)) {
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

func (m *memory[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, key)
}

// keep forgets all that is not live.
func (m *memory[K, V]) keep(live func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.of {
		if !live(key) {
			delete(m.of, key)
		}
	}
}
