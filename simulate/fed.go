package simulate

import (
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// Fed is a recommender that has seen the usage of files.
type Fed struct{ *recommendation }

// Feed gives a recommender usage up to the cluster's time. Its recommendations replace those in the status of all VPAs.
func (c *Cluster) Feed(usage *usagefile.Usage, remember model.Settings) (Fed, error) {
	r, unusable := c.fed(usage, remember)
	made := r.report(false)
	c.statuses = map[string]vpav1.VerticalPodAutoscalerStatus{}
	for _, v := range made.Items {
		c.statuses[v.Namespace+"/"+v.Name] = v.Status
	}
	return Fed{r}, unusable
}

// State is what the recommender knows.
func (f Fed) State() *recommender.State { return f.state }

// Workload is the state of a VPA; nil without one.
func (f Fed) Workload(namespace, name string) *recommender.Workload {
	for _, w := range f.state.Workloads() {
		if w.VPA.Namespace == namespace && w.VPA.Name == name {
			return w
		}
	}
	return nil
}
