package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/source"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

const liveDiffHelp = `With --live it reads a cluster and says which VPAs and pods would change if CANDIDATE, a folder of rules or a file with
RuleOverlays, were laid over the rules in force: those of --rules-dir over the shipped ones, and the RuleOverlays of the
cluster. It reads all namespaces unless -n names one, and only gets and lists. A RuleOverlay of CANDIDATE replaces the one of
its name in the cluster, and counts as enforced in every mode.

Each VPA that changes has a row: how much more or less its running pods would request, what the updater's next cycle would do
with them, and what changes for the first of them. -o wide has a row for each pod, too. The VPA with the largest impact comes
first: the sum over its pods of how much their requests change, a core counting as 4 GiB.

Where CANDIDATE changes recommendations, both old and new ones are computed from the VerticalPodAutoscalerCheckpoints in the
cluster. They hold neither the memory windows that are open nor usage since the last write. What processes remember, such as
attempts to resize, and PodDisruptionBudgets are left out. Pods that belong to no VPA are not compared.

Exit code 0: it is compared, whatever the answer is; 2: an input could not be read, there was no VPA, a row of a test table
runs on no set of rules, or the rules could not be used. Readable input is answered even then.`

// liveDiff compares rules by what they do in a cluster.
type liveDiff struct {
	offline // without its flags of rules
	on      bool
	top     int
}

func (d *liveDiff) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&d.on, "live", false, "compare the rules in force with a candidate, by what both do in a cluster")
	f.IntVar(&d.top, "top", 0, "with --live, how many VPAs to print; 0 = all")
	f.StringArrayVarP(&d.files, "filename", "f", nil, "with --live, file, folder or URL with the objects of a cluster to read instead, or - for standard input; can be repeated")
	f.StringVar(&d.now, "now", "", "with --live, the time to compare at, in RFC 3339 or seconds since 1970; empty = that of the newest checkpoint of -f, or now without any")
	d.addSelector(cmd)
	d.live.add(cmd, append([]schema.GroupVersionKind{manifests.VPAKind, manifests.CheckpointKind}, manifests.PodKinds...))
}

// check refuses flags that do nothing.
func (d *liveDiff) check(p *printer) error {
	flag := d.live.given()
	switch {
	case d.on && d.top < 0:
		return fmt.Errorf("--top is %d; give the number of VPAs to print, or 0 for all", d.top)
	case d.on && flag != "" && len(d.files) > 0:
		return fmt.Errorf("-f and --%s exclude each other: objects come from manifests or from a cluster", flag)
	case d.on:
		return nil
	case flag != "":
		return fmt.Errorf("--%s is for --live", flag)
	case d.top != 0 || len(d.files) > 0 || d.now != "" || d.selector != nil:
		return errors.New("--top, --filename, --selector and --now are for --live")
	case p.form == "wide" || p.form == "name":
		return fmt.Errorf("--output is %s, which is for --live; use table, json or yaml", p.form)
	}
	return nil
}

func (d *liveDiff) run(cmd *cobra.Command, o *ruleOptions, p *printer, candidate string) error {
	inForce, err := o.read(o.dir)
	if err != nil {
		return err
	}
	after, tried, err := o.readUnder(inForce, candidate)
	if err != nil {
		return err
	}
	if _, err := d.time(); err != nil {
		return err // before a cluster is read
	}
	d.display = newProgress(cmd.ErrOrStderr())
	defer d.display.end()
	set, notes, unread := d.read(cmd)
	var written time.Time
	if len(d.files) > 0 {
		written = simulate.LastCheckpoint(set)
	}
	now, err := d.time(written)
	if err != nil {
		return err
	}
	cluster, unloaded := simulate.Load(set, inForce.book, simulate.At(now))
	unselected := d.narrow(cluster)
	result, unusable := cluster.Compare(cmd.Context(), after, d.display.count)
	if len(tried) > 0 {
		notes = append(notes, "the candidate counts as enforced, whatever its mode: "+strings.Join(tried, ", "))
	}
	d.printNotes(cmd, append(notes, cluster.Notes()...))
	left := 0
	if d.top > 0 && len(result.Items) > d.top {
		left = len(result.Items) - d.top
		result.Items = result.Items[:d.top]
	}
	forms := tables(func(p *page, wide bool) { printImpact(p, result, left, wide) })
	forms["name"] = names(vpaResource, result.Items, func(v *simulate.VPAImpact) string { return v.VPA })
	if err := p.print(cmd.OutOrStdout(), result, forms); err != nil {
		return err
	}
	return d.end(faults.Join(unread, shortened(unloaded), unselected, unusable), result.Totals.OfVPAs == 0, "there is no VerticalPodAutoscaler in %s: nothing was compared", false)
}

// shortened are the faults of RuleOverlays beside the candidate, which are not in use: a line for each.
func shortened(unloaded error) error {
	var out []error
	for _, err := range faults.List(unloaded) {
		if n := len(source.Problems(err)); n > 0 {
			first, _, _ := strings.Cut(err.Error(), "\n")
			if err = errors.New(first); n > 1 {
				err = fmt.Errorf("%s; and %s", first, simulate.Counted(n-1, "more fault"))
			}
		}
		out = append(out, err)
	}
	return faults.Join(out...)
}

// read reads the cluster, or what stands for it.
func (d *liveDiff) read(cmd *cobra.Command) (*manifests.Set, []string, error) {
	if len(d.files) > 0 {
		set, err := d.readFiles(cmd)
		return set, nil, err
	}
	d.live.watch = d.display.count
	return d.live.readAll(cmd.Context())
}

// readUnder compiles a candidate laid over rules. tried names its overlays that are not enforced.
func (o *ruleOptions) readUnder(inForce *ruleFiles, candidate string) (book *compile.Rulebook, tried []string, err error) {
	var over *policy.Rules
	over, tried, err = inForce.Under(candidate)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w; name a folder or file of rules", err)
	}
	if err != nil {
		return nil, nil, err
	}
	book, err = o.compile(over)
	return book, tried, err
}

func printImpact(p *page, r *simulate.Impact, left int, wide bool) {
	if r.Totals.OfVPAs == 0 {
		return
	}
	if len(r.Items) > 0 {
		p.header("VPA", "PODS", "CPU-CORES", "MEMORY-GIB", "EVICT", "RESIZE", "WAIT", "CHANGE")
	}
	for i := range r.Items {
		v := &r.Items[i]
		p.row(v.VPA, len(v.Pods), v.Requests.CPU.Cores(), v.Requests.Memory.GiB(), fromTo(v.Before.Evictions, v.After.Evictions),
			fromTo(v.Before.Resizes, v.After.Resizes), fromTo(v.Before.Waiting, v.After.Waiting), changeText(v))
	}
	if left > 0 {
		p.printf("… and %s\n", simulate.Counted(left, "other VerticalPodAutoscaler"))
	}
	if wide && len(r.Items) > 0 {
		p.printf("\n")
		p.header("POD", "VPA", "CPU-CORES", "MEMORY-GIB", "BEFORE", "AFTER", "CHANGE")
		for i := range r.Items {
			for j := range r.Items[i].Pods {
				pod := &r.Items[i].Pods[j]
				p.row(pod.Pod, r.Items[i].VPA, pod.Requests.CPU.Cores(), pod.Requests.Memory.GiB(), actionText(pod.Before), actionText(pod.After),
					cmp.Or(strings.Join(admissionChanges(pod), "; "), "-"))
			}
		}
	}
	t := &r.Totals
	if len(r.Items) > 0 {
		p.printf("\n")
	}
	p.printf("%d of %s and %d of %s change.\n", t.VPAs, simulate.Counted(t.OfVPAs, "VerticalPodAutoscaler"), t.Pods, simulate.Counted(t.OfPods, "pod"))
	if t.VPAs > 0 {
		p.printf("Requests: %s cores, %s GiB.\n", t.Requests.CPU.Cores(), t.Requests.Memory.GiB())
		p.printf("The updater's next cycle with these pods: evictions %s, resizes %s, waiting %s.\n",
			fromTo(t.Before.Evictions, t.After.Evictions), fromTo(t.Before.Resizes, t.After.Resizes), fromTo(t.Before.Waiting, t.After.Waiting))
	}
}

// fromTo is a number, or two where it changes.
func fromTo(before, after int) string {
	if before == after {
		return fmt.Sprint(before)
	}
	return fmt.Sprintf("%d → %d", before, after)
}

func actionText(a simulate.Action) string {
	if a.Rule == "" {
		return a.Action
	}
	return a.Action + " (" + a.Rule + ")"
}

// changeText says what changes for a VPA: its recommendation, or else the resources of its first
// pod, and what the updater does with that pod.
func changeText(v *simulate.VPAImpact) string {
	var parts []string
	for _, r := range v.Recommendation {
		parts = append(parts, r.String())
	}
	if len(v.Pods) > 0 {
		first := v.Pods[0]
		if len(parts) > 0 {
			first.Resources = nil
		}
		parts = append(parts, podChanges(&first)...)
	}
	return strings.Join(parts, "; ")
}

// podChanges says what changes for a pod.
func podChanges(pod *simulate.PodImpact) []string {
	out := admissionChanges(pod)
	if pod.Before.Action != pod.After.Action || pod.Before.Rule != pod.After.Rule {
		out = append(out, fmt.Sprintf("%s → %s", actionText(pod.Before), actionText(pod.After)))
	}
	return out
}

// admissionChanges says what changes for the pod that would replace one.
func admissionChanges(pod *simulate.PodImpact) (out []string) {
	for _, r := range pod.Resources {
		out = append(out, r.String())
	}
	if r := pod.Refusal; r != nil {
		out = append(out, fmt.Sprintf("admission: %s → %s", cmp.Or(r.Before, "allowed"), cmp.Or(r.After, "allowed")))
	}
	return out
}
