package recommender

import "github.com/go-logr/logr"

// notices tells of what goes wrong once, not in every cycle, and when it is over.
type notices struct {
	last map[string]string
}

// tell logs an error that is another than the last time, and that there is none any more.
func (n *notices) tell(log logr.Logger, what string, err error, consequence string) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if n.last[what] == text {
		return
	}
	if n.last == nil {
		n.last = map[string]string{}
	}
	if n.last[what] = text; err != nil {
		log.Error(err, consequence)
		return
	}
	delete(n.last, what)
	log.Info(what + ": works again")
}
