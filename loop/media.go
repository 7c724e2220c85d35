package loop

import "github.com/daruma-agent/daruma/failure"

// StripMedia takes the images and documents out of the conversation after the
// provider refused one, or refused the bytes of the request, which are mostly
// media where there are any (R50).
const StripMedia Transition = "media_strip_retry"

var stripMedia = &Recovery{
	Name: StripMedia,
	Doc: Doc{
		Cause:  "an image or document was refused, or the request had too many bytes",
		Action: "put texts that name them in the place of images and documents",
		End:    "refused again: image_error, or the next way to a smaller request",
	},
	Answers: func(_ State, o Outcome) bool {
		switch {
		case o.Kind != Failed:
			return false
		case o.Failure == failure.MediaTooLarge, o.Failure == failure.MediaInvalid, o.Failure == failure.RequestTooLarge:
			return true
		}
		return false
	},
	Limit: 1,
	Scope: PerTurn,
	Step:  Step{Do: Reduce, Rung: Media, Discard: true},
}
