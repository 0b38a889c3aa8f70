package compile

import "sync"

// Cache shares compiled rule sets between compilations of the same files with the same registry:
// most gates and parameters affect only one rule set. It is safe for concurrent use.
type Cache struct {
	mu   sync.Mutex
	sets map[setKey]*setResult
}

// get returns nil on a miss and on a nil Cache.
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
