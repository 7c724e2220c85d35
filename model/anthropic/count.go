package anthropic

import (
	"context"
	"io"

	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json"
)

// CountTokens asks the API how many tokens the prompt of r has. Its errors are
// those of [Client.Stream].
func (c *Client) CountTokens(ctx context.Context, r *model.Request) (int, error) {
	s := c.newStream(ctx, r)
	defer s.leave()
	req, err := s.prepare("/v1/messages/count_tokens", c.encodeCount)
	if err != nil {
		return 0, err
	}
	res, err := s.do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	s.head, err = io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		return 0, s.failed(s.cut(err))
	}
	var count struct {
		Input *int `json:"input_tokens"`
	}
	if err := json.Unmarshal(s.head, &count, lenient); err != nil || count.Input == nil {
		return 0, s.failed(s.foreign(res, "the body is no count"))
	}
	return *count.Input, nil
}
