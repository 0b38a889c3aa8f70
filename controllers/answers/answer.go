package answers

// Answer is what one process says: the parts that it runs.
type Answer struct {
	Recommender *Recommender `json:"recommender,omitempty"`
	Updater     *Updater     `json:"updater,omitempty"`
	Admission   *Admission   `json:"admission,omitempty"`
	Unknown     []string     `json:"unknown,omitempty"` // what the process could not say, and why
}
