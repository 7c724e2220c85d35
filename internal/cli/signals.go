package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool/builtin"
)

// signals listens to those that end a run.
type signals struct {
	agent    *daruma.Agent  // nil until the run is about to begin
	unborn   func(code int) // ends the process before there is a run; nil if the agent was there first
	say      func(line string)
	talk     *talkSignals // nil without a conversation
	commands commands
	came     chan os.Signal
	done     chan struct{}

	mu   sync.Mutex
	exit int
	runs bool // the run has begun
	over bool // the run has told how it ended …
	told int  // … with this code
}

// talkSignals is what a conversation does about signals.
type talkSignals struct {
	leave func(code int)   // it ends with more than the run
	key   func(ctrlC bool) // Ctrl+C is a key
}

// signalCodes are the exit codes, as shells know them.
var signalCodes = map[os.Signal]int{os.Interrupt: exitInterrupted, syscall.SIGTERM: exitTerminated, syscall.SIGHUP: exitHungUp}

// onSignals makes the first Ctrl+C an interrupt that leaves a whole session and
// the second one the end. SIGTERM and the loss of the terminal end the run
// without making anything up (R88).
func onSignals(agent *daruma.Agent, say func(line string), talk *talkSignals) *signals {
	s := &signals{agent: agent, say: say, talk: talk}
	s.start()
	return s
}

// earlySignals listens before there is a run to end: unborn must end the process.
func earlySignals(unborn func(code int)) *signals {
	s := &signals{unborn: unborn}
	s.start()
	return s
}

func (s *signals) start() {
	s.commands.running = map[string]*session.Intent{}
	s.came, s.done = make(chan os.Signal, 4), make(chan struct{})
	signal.Notify(s.came, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go s.listen()
}

// attend makes signals end the run of agent, which is about to begin.
func (s *signals) attend(agent *daruma.Agent, say func(line string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agent, s.say = agent, say
}

func (s *signals) listen() {
	for {
		select {
		case <-s.done:
			return
		case sig := <-s.came:
			s.take(sig)
		}
	}
}

func (s *signals) take(sig os.Signal) {
	s.mu.Lock()
	again, runs, over, code := s.exit != 0, s.runs, s.over, signalCodes[sig]
	s.exit = code
	if s.agent == nil && s.unborn != nil {
		s.unborn(code)
	}
	if over {
		code = s.told
	}
	s.mu.Unlock()
	switch {
	case again && sig != syscall.SIGHUP: // which a terminal and its shell may send both
		s.commands.end()
		os.Exit(code)
	case over: // the process ends anyway, when what is open is closed
	case sig == os.Interrupt && s.talk == nil:
		s.say("interrupting; press Ctrl+C again to end at once")
		if !s.agent.Interrupt() && !runs && s.unborn != nil {
			s.unborn(code)
		}
	case sig == os.Interrupt: // from elsewhere, or from a terminal that makes it of the key
		s.forget()
		s.talk.key(true)
	default:
		s.agent.Shutdown()
		if s.talk != nil {
			s.talk.leave(signalCodes[sig])
		}
	}
}

// event sees what the run does.
func (s *signals) event(e session.Event) {
	s.mu.Lock()
	s.runs = true
	s.mu.Unlock()
	s.commands.event(e)
}

// code is the exit code that the last signal asks for; 0 without one.
func (s *signals) code() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exit
}

// settle returns the code of a run that ended with code: that of a signal which
// ended it, if one did. No later signal changes it, whatever is still to close.
func (s *signals) settle(code int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code != exitOK && s.exit != 0 {
		code = s.exit
	}
	s.over, s.told = true, code
	return code
}

func (s *signals) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exit = 0
}

func (s *signals) stop() {
	signal.Stop(s.came)
	close(s.done)
}

// commands are the processes of tools that run at the moment. A process that
// ends at once takes them along.
type commands struct {
	mu      sync.Mutex
	running map[string]*session.Intent
}

func (c *commands) event(e session.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch b := e.Body.(type) {
	case *session.Intent:
		if b.Group != 0 {
			c.running[b.Call] = b
		}
	case *session.Result:
		delete(c.running, b.Call)
	}
}

func (c *commands) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, in := range c.running {
		builtin.EndLeft(in.Group, in.Started, 0)
	}
}
