package loop

// Doc says in words what a recovery is about; tables for people are made of it.
type Doc struct {
	Cause  string // what calls for it
	Action string // what it changes before the model is asked again
	End    string // what follows when it did not help, or is spent
}

// Row is a recovery as a reader of the table needs it.
type Row struct {
	Name  Transition
	Doc   Doc
	Limit int // uses within Scope; of the fallback: the models after the primary
	Scope Scope
	Rung  Rung // of the ladder, where the recovery makes the history smaller
}

// Table lists the recoveries in the order in which they are tried.
func Table() []Row {
	rows := make([]Row, 0, len(table))
	for _, r := range table {
		rows = append(rows, Row{Name: r.Name, Doc: r.Doc, Limit: r.Limit, Scope: r.Scope, Rung: r.Step.Rung})
	}
	return rows
}

var scopeNames = [...]string{PerAnswer: "answer", PerTurn: "turn", PerRun: "run", PerSession: "session"}

func (s Scope) String() string { return scopeNames[s] }
