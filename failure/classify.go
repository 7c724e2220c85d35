package failure

// Report is what a wire saw instead of a good answer.
type Report struct {
	Provider string              // "anthropic", "openai", …; "" when not known
	Status   int                 // HTTP status; 0 when there was no answer
	Header   map[string][]string // response headers, any spelling
	Body     []byte              // body, stream event data, or the text of an error
	InStream bool                // the failure came inside a stream that began with 200
	Err      error               // transport error, if that is what failed
}
