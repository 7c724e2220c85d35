// Package hook (layer 4) answers one question: who may stop or change what the
// agent does? Hooks are commands and HTTP services of the user that are told of
// an event and may answer it.
//
// [Parse] reads them out of a settings file, [New] makes them ready, and
// [Hooks.Run] asks all that match an event, together, and merges what they say
// in the order of their configuration: who was faster decides nothing.
//
// # Failure is never consent
//
// On a policy event (PreToolUse, PermissionRequest) a hook that timed out, was
// killed, could not be started or found, printed JSON that cannot be read, or,
// as a service, did not answer with 2xx, was asked and did not say yes: the
// call is denied, and the reason says so. [Config.FailOpen] turns that into "no
// decision", so that rules and people decide; nothing turns it into "allow".
// Any other exit code (1, 3, …) is an error of the hook after which it decides
// nothing, as is usual for hooks. On all other events a failure is a notice.
// docs/hooks.md has the whole table.
package hook
