// Package watcher checks from outside that celvpa disrupts nothing that it must not disrupt. It knows the cluster by watches of its
// own, and what celvpa did by the API server's audit log; it shares no code with celvpa but the API types.
//
// celvpa learns of changes by watches, so it may act on what was true a little earlier. An act is right if it was right at some
// moment between the begin of what celvpa could not know (Known) and the act. What celvpa did itself since that moment counts as
// known in any case: an own eviction must never be forgotten.
package watcher
