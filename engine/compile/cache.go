package compile

import "sync"

// Cache keeps compiled rule sets for other compilations of the same files with the same registry. Most gates and parameters
// change one rule set, so that whoever tries many of them compiles the others once. Compilations at the same time may share one.
type Cache struct {
	mu   sync.Mutex
	sets map[setKey]*setResult
}

// get returns nil for a rule set that is not there, and of no cache.
func (c *Cache) get(key setKey) *setResult {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets[key]
}

func (c *Cache) put(key setKey, result *setResult) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.sets = map[setKey]*setResult{}
	}
	c.sets[key] = result
}
