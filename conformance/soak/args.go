package main

// The components, as commands of celvpa, which are also the names of their service accounts.
const (
	recommender = "recommender"
	updater     = "updater"
	admission   = "admission-controller"
)

// The flags are those of deploy/manifests, but all that takes a minute or a day there takes seconds here: the soak is to see as many
// cycles as a long time would bring, and recommendations that follow usage.
var (
	commonArgs = []string{"--rules-reload-interval=1s", "--profiling", "--v=2",
		"--feature-gates=CPUStartupBoost=true,InPlace=true,PerVPAConfig=true,PodLevelResources=true,RequestToLimitRatio=true,MemoryPerCPURatio=true"}
	leaderArgs = []string{"--leader-elect", "--leader-elect-resource-namespace=" + system}

	componentArgs = []struct {
		name string
		args []string
	}{
		{recommender, append([]string{"--leader-elect-resource-name=vpa-recommender-lease", "--recommender-interval=10s", "--checkpoints-gc-interval=1m",
			"--confidence-interval-cpu=1m", "--confidence-interval-memory=1m", "--cpu-histogram-decay-half-life=1m", "--memory-histogram-decay-half-life=1m",
			"--memory-aggregation-interval=30s", "--pod-recommendation-min-memory-mb=50", "--target-grace-period=2m"}, leaderArgs...)},
		{updater, append([]string{"--leader-elect-resource-name=vpa-updater-lease", "--updater-interval=10s", "--eviction-rate-limit=5", "--eviction-rate-burst=10",
			"--first-cycle-evictions=10", "--in-recommendation-bounds-eviction-lifetime-threshold=1m"}, leaderArgs...)},
		{admission, []string{"--status-lease-update-interval=5s", "--webhook-probe-interval=10s"}},
	}
)
