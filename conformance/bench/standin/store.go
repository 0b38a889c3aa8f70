package standin

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is a kind of objects that is served.
type Kind struct {
	schema.GroupVersionKind
	Plural string
	Global bool // of no namespace
}

func (k Kind) path() string { return groupPath(k.GroupVersion()) + "/" + k.Plural }

// groupPath is where an API server has the resources of a group.
func groupPath(of schema.GroupVersion) string {
	if of.Group == "" {
		return "api/" + of.Version
	}
	return "apis/" + of.String()
}

// Store holds objects of the kinds served. An object is never changed, but replaced.
type Store struct {
	mu      sync.RWMutex
	version int64
	kinds   map[string]*objects // by plural
}

// objects are all of a kind.
type objects struct {
	Kind
	all      map[client.ObjectKey]client.Object
	watchers map[*watcher]bool
}

// change is an event that watchers receive.
type change struct {
	how    watch.EventType
	object client.Object
}

// watcher has what it was not sent yet.
type watcher struct {
	mu    sync.Mutex
	queue []change
	woken chan struct{} // holds one while there is something new
}

// NewStore returns an empty store for objects of these kinds.
func NewStore(kinds ...Kind) *Store {
	s := &Store{version: 1, kinds: map[string]*objects{}}
	for _, k := range kinds {
		s.kinds[k.Plural] = &objects{Kind: k, all: map[client.ObjectKey]client.Object{}, watchers: map[*watcher]bool{}}
	}
	return s
}

// Put adds an object or replaces it, and gives it a new resource version.
func (s *Store) Put(plural string, object client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(plural, object)
}

func (s *Store) put(plural string, object client.Object) {
	of := s.kinds[plural]
	key := client.ObjectKeyFromObject(object)
	how := watch.Added
	if of.all[key] != nil {
		how = watch.Modified
	}
	s.stamp(object)
	of.all[key] = object
	of.notify(change{how, object})
}

func (s *Store) stamp(object client.Object) {
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
}

// Delete deletes an object. last is the object as it was last seen, which gets a new resource
// version.
func (s *Store) Delete(plural string, last client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, key := s.kinds[plural], client.ObjectKeyFromObject(last)
	if of.all[key] == nil {
		return
	}
	delete(of.all, key)
	gone := last.DeepCopyObject().(client.Object)
	s.stamp(gone)
	of.notify(change{watch.Deleted, gone})
}

// Update replaces an object by what change makes of a copy of it; false if there is none.
func (s *Store) Update(plural string, key client.ObjectKey, change func(client.Object)) (client.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.kinds[plural].all[key]
	if before == nil {
		return nil, false
	}
	after := before.DeepCopyObject().(client.Object)
	change(after)
	s.put(plural, after)
	return after, true
}

// List are all objects of a kind by namespace and name, and the version of the store.
func (s *Store) List(plural string) ([]client.Object, string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kinds[plural].sorted(), strconv.FormatInt(s.version, 10)
}

// Len is how many objects of a kind there are.
func (s *Store) Len(plural string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.kinds[plural].all)
}

func (o *objects) sorted() []client.Object {
	out := make([]client.Object, 0, len(o.all))
	for _, object := range o.all {
		out = append(out, object)
	}
	slices.SortFunc(out, func(a, b client.Object) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// follow returns the objects of a kind and a watcher of what comes after, which end forgets. Each
// list is the newest state: a client that comes back lists again.
func (s *Store) follow(plural string) (now []client.Object, version string, w *watcher, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.kinds[plural]
	w = &watcher{woken: make(chan struct{}, 1)}
	of.watchers[w] = true
	return of.sorted(), strconv.FormatInt(s.version, 10), w, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(of.watchers, w)
	}
}

func (o *objects) notify(c change) {
	for w := range o.watchers {
		w.mu.Lock()
		w.queue = append(w.queue, c)
		w.mu.Unlock()
		select {
		case w.woken <- struct{}{}:
		default:
		}
	}
}

// take returns what is new.
func (w *watcher) take() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.queue
	w.queue = nil
	return out
}

// resources is the discovery document of a group.
func (s *Store) resources(of schema.GroupVersion) metav1.APIResourceList {
	out := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: of.String()}
	for _, k := range s.kinds {
		if k.GroupVersion() == of {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: k.Plural, Kind: k.Kind.Kind, Namespaced: !k.Global, Verbs: metav1.Verbs{"get", "list", "watch"}})
		}
	}
	slices.SortFunc(out.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// groups is the discovery document of all groups but the core group.
func (s *Store) groups() metav1.APIGroupList {
	out := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	seen := map[schema.GroupVersion]bool{{Version: "v1"}: true}
	for _, k := range s.kinds {
		of := k.GroupVersion()
		if seen[of] {
			continue
		}
		seen[of] = true
		v := metav1.GroupVersionForDiscovery{GroupVersion: of.String(), Version: of.Version}
		out.Groups = append(out.Groups, metav1.APIGroup{Name: of.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
	}
	slices.SortFunc(out.Groups, func(a, b metav1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}
