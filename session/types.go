package session

// ephemeral are the events that only a screen needs, while they happen; the
// journal keeps all others.
var ephemeral = map[Type]bool{TypeBlock: true, TypeDelta: true, TypeWaiting: true, TypeProgress: true}

// Durable reports whether the journal keeps events of type t.
func (t Type) Durable() bool { return !ephemeral[t] }

// Type implements [Body].
func (*Start) Type() Type      { return TypeStart }
func (*RunStart) Type() Type   { return TypeRunStart }
func (*Prompt) Type() Type     { return TypePrompt }
func (*Message) Type() Type    { return TypeMessage }
func (*Decision) Type() Type   { return TypeDecision }
func (*Begin) Type() Type      { return TypeBegin }
func (*Block) Type() Type      { return TypeBlock }
func (*Delta) Type() Type      { return TypeDelta }
func (*Checkpoint) Type() Type { return TypeCheckpoint }
func (*Commit) Type() Type     { return TypeCommit }
func (*Continue) Type() Type   { return TypeContinue }
func (*Retract) Type() Type    { return TypeRetract }
func (*Recovery) Type() Type   { return TypeRecovery }
func (*Waiting) Type() Type    { return TypeWaiting }
func (*Intent) Type() Type     { return TypeIntent }
func (*Progress) Type() Type   { return TypeProgress }
func (*Result) Type() Type     { return TypeResult }
func (*Results) Type() Type    { return TypeResults }
func (*Permission) Type() Type { return TypePermission }
func (*Compaction) Type() Type { return TypeCompaction }
func (*Repair) Type() Type     { return TypeRepair }
func (*Mismatch) Type() Type   { return TypeMismatch }
func (*Notice) Type() Type     { return TypeNotice }
func (*FileSaved) Type() Type  { return TypeFileSaved }
func (*Child) Type() Type      { return TypeChild }
func (*Hook) Type() Type       { return TypeHook }
func (*Name) Type() Type       { return TypeName }
func (*End) Type() Type        { return TypeEnd }
