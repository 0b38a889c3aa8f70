package recommender

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// busy is an API that serves checkpoints in small pages, and a part of the requests of a cycle.
type busy struct {
	client.Client
	size    int
	serves  int  // requests until the next cycle
	expires bool // the next token is of a list that is forgotten
	lists   map[string][]unstructured.Unstructured
}

func (b *busy) late() error {
	if b.serves--; b.serves < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func (b *busy) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := b.late(); err != nil {
		return err
	}
	return b.Client.Delete(ctx, o, opts...)
}

// List serves pages of the list as it was at the first of them.
func (b *busy) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	page, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return b.Client.List(ctx, list, opts...)
	}
	if err := b.late(); err != nil {
		return err
	}
	asked := &client.ListOptions{}
	asked.ApplyOptions(opts)
	if asked.Continue == "" {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(page.GroupVersionKind())
		if err := b.Client.List(ctx, all); err != nil {
			return err
		}
		asked.Continue = "0"
		b.lists = map[string][]unstructured.Unstructured{}
		for i := 0; i == 0 || i < len(all.Items); i += b.size {
			b.lists[fmt.Sprint(i)] = all.Items[i:min(i+b.size, len(all.Items))]
		}
	} else if b.expires {
		b.expires = false
		return apierrors.NewResourceExpired("the provided continue parameter is too old")
	}
	var at int
	_, err := fmt.Sscan(asked.Continue, &at)
	page.Items = b.lists[asked.Continue]
	if next := fmt.Sprint(at + b.size); b.lists[next] != nil {
		page.SetContinue(next)
	}
	return err
}

// collecting is a cluster of n VPAs, and the checkpoints of n others that are gone, behind a busy API.
// Each cycle with collecting serves some requests.
func collecting(t *testing.T, n int) (c *cluster, b *busy, cycle func(serves int)) {
	var objects []client.Object
	var used []string
	for i := range n {
		name := fmt.Sprintf("m%02d", i)
		objects = append(append(objects, workload(name, "app")...), checkpointOf(name, "app", 1000), checkpointOf(fmt.Sprintf("z%02d", i), "app", 1000))
		used = append(used, name+" app")
	}
	c = newCluster(t, objects...)
	c.cycle(used...)
	c.cycle(used...)
	b = &busy{Client: c.api, size: 3}
	c.Live = b
	c.Checkpoints.Interval = time.Nanosecond
	return c, b, func(serves int) {
		b.serves = serves
		c.cycle() // without samples there is nothing to write
	}
}

// left are the checkpoints whose VPAs are gone.
func (c *cluster) left() (n int) {
	for name := range c.checkpoints() {
		if name[0] == 'z' {
			n++
		}
	}
	return n
}

// TestACollectionGoesOnInTheNextCycle: each began with the first page, so the last ones were never
// reached.
func TestACollectionGoesOnInTheNextCycle(t *testing.T) {
	c, _, cycle := collecting(t, 12)
	most := c.left()
	for range 40 {
		cycle(2)
		require.LessOrEqual(t, c.left(), most)
		most = c.left()
	}
	require.Zero(t, most)
	require.Len(t, c.checkpoints(), 12)
	require.Zero(t, c.count("cannot delete all unused"), "there is progress")
	cycle(0)
	require.Equal(t, 1, c.count("cannot delete all unused"))
}

// TestACollectionWhoseListExpiredBeginsAgain: API servers forget a list after some minutes.
func TestACollectionWhoseListExpiredBeginsAgain(t *testing.T) {
	c, b, cycle := collecting(t, 12)
	cycle(2)
	b.expires = true
	cycle(100)
	require.False(t, b.expires)
	require.Zero(t, c.left())
	require.Zero(t, c.count("cannot delete all unused"))
	require.Nil(t, c.Checkpoints.pass)
}

// TestACollectionForgetsOnlyWhoseCheckpointsAreDeleted: a VPA that comes back had lost its history when
// a collection had failed or not reached its checkpoint.
func TestACollectionForgetsOnlyWhoseCheckpointsAreDeleted(t *testing.T) {
	for name, late := range map[string]bool{"it ran out of time": true, "a deletion failed": false} {
		t.Run(name, func(t *testing.T) {
			c, b, cycle := collecting(t, 6)
			last := workload("m05", "app")[0].(*vpav1.VerticalPodAutoscaler)
			require.NoError(t, c.api.Delete(t.Context(), last))
			serves := 100
			if late {
				serves = 2
			} else {
				b.Client = refusing{c.api, "m05-app"}
			}
			cycle(serves)
			require.Equal(t, 1002, c.checkpoints()["m05-app"])
			c.Checkpoints.Interval = time.Hour
			last.ResourceVersion = ""
			require.NoError(t, c.api.Create(t.Context(), last))
			c.Live = c.api
			c.cycle("m05 app")
			require.Equal(t, 1003, c.checkpoints()["m05-app"])
		})
	}
}

// refusing is an API that refuses to delete an object.
type refusing struct {
	client.Client
	name string
}

func (r refusing) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if o.GetName() == r.name {
		return apierrors.NewInternalError(fmt.Errorf("a webhook refuses it"))
	}
	return r.Client.Delete(ctx, o, opts...)
}
