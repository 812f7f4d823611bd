// Nodes of etcd-io/raft that a script drives: one command as a line of JSON on stdin, one answer as a line on stdout.
//
// The program keeps the nodes, their disks and the messages that they have sent, and decides nothing. After each command
// the node does all that it asks for, with a disk that always works, and the answer tells what it said and what it is.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"reflect"
	"strconv"
	"unsafe"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

type command struct {
	Op        string   `json:"op"`
	Node      uint64   `json:"node"`
	To        uint64   `json:"to"`
	Message   int      `json:"message"`
	Forget    []int    `json:"forget"`
	Data      string   `json:"data"`
	Index     uint64   `json:"index"`
	Keep      uint64   `json:"keep"`
	Good      bool     `json:"good"`
	Lost      bool     `json:"lost"`
	Extra     int      `json:"extra"`
	Voters    []uint64 `json:"voters"`
	Election  int      `json:"election"`
	Heartbeat int      `json:"heartbeat"`
	Inflight  int      `json:"inflight"`
	Single    bool     `json:"is_single"`
	PreVote   bool     `json:"pre_vote"`
	Quorum    bool     `json:"check_quorum"`
}

type answer struct {
	Refused  bool    `json:"refused"`
	Panic    string  `json:"panic"`
	Synced   bool    `json:"synced"`
	State    []any   `json:"state"`
	First    int     `json:"first"`
	Messages [][]any `json:"messages"`
	Applied  [][]any `json:"applied"`
	Reads    [][]any `json:"reads"`
	Log      [][]any `json:"log"`
}

// disk is etcd's storage with members that are known from the beginning.
type disk struct {
	*raft.MemoryStorage
	members pb.ConfState
}

func (d disk) InitialState() (pb.HardState, pb.ConfState, error) {
	state, _, err := d.MemoryStorage.InitialState()
	return state, d.members, err
}

type node struct {
	*raft.RawNode
	disk    disk
	extra   int
	applied uint64
}

type group struct {
	settings command
	nodes    map[uint64]*node
	sent     map[int]pb.Message
	next     int
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (g *group) start(id uint64, extra int) {
	before := g.nodes[id]
	members := pb.ConfState{Voters: g.settings.Voters}
	now := &node{disk: disk{raft.NewMemoryStorage(), members}, extra: extra}
	if before != nil {
		now.disk = before.disk
	}
	snapshot, err := now.disk.Snapshot()
	must(err)
	now.applied = snapshot.Metadata.Index
	if first, _ := now.disk.FirstIndex(); now.applied >= first {
		must(now.disk.Compact(now.applied))
	}
	size := uint64(1 << 40)
	if g.settings.Single {
		size = 0 // One entry in a message.
	}
	now.RawNode, err = raft.NewRawNode(&raft.Config{
		ID:                        id,
		ElectionTick:              g.settings.Election,
		HeartbeatTick:             g.settings.Heartbeat,
		Storage:                   now.disk,
		Applied:                   now.applied,
		MaxSizePerMsg:             size,
		MaxCommittedSizePerReady:  1 << 40,
		MaxInflightMsgs:           g.settings.Inflight,
		CheckQuorum:               g.settings.Quorum,
		PreVote:                   g.settings.PreVote,
		DisableProposalForwarding: true,
		Logger:                    &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)},
	})
	must(err)
	g.nodes[id] = now
}

// setTimeout replaces the time-out that etcd has drawn: chance belongs to the script.
func (n *node) setTimeout(election int) {
	inner := reflect.ValueOf(n.RawNode).Elem().FieldByName("raft").Elem()
	field := inner.FieldByName("randomizedElectionTimeout")
	*(*int)(unsafe.Pointer(field.UnsafeAddr())) = election + n.extra
}

// do carries out one command; a panic of etcd's is an answer, too.
func (g *group) do(c command) (a answer) {
	defer func() {
		if found := recover(); found != nil {
			a.Panic = fmt.Sprint(found)
		}
	}()
	for _, message := range c.Forget {
		delete(g.sent, message)
	}
	if c.Op == "group" {
		*g = group{settings: c, nodes: map[uint64]*node{}, sent: map[int]pb.Message{}}
		for _, id := range c.Voters {
			g.start(id, 0)
		}
		return
	}
	n := g.nodes[c.Node]
	switch c.Op {
	case "start":
		g.start(c.Node, c.Extra)
		n = g.nodes[c.Node]
	case "tick":
		n.setTimeout(g.settings.Election)
		n.Tick()
	case "campaign":
		must(n.Campaign())
	case "propose":
		a.Refused = n.Propose([]byte(c.Data)) != nil
	case "read":
		n.ReadIndex([]byte(c.Data))
	case "transfer":
		n.TransferLeader(c.To)
	case "unreachable":
		n.ReportUnreachable(c.To)
	case "snapshot":
		status := raft.SnapshotFailure
		if c.Good {
			status = raft.SnapshotFinish
		}
		n.ReportSnapshot(c.To, status)
	case "compact":
		g.compact(n, c)
	case "step":
		_ = n.Step(g.sent[c.Message])
	case "log":
		a.Log = n.log()
	default:
		panic("unknown command " + c.Op)
	}
	if c.Lost {
		g.start(c.Node, c.Extra)
		n = g.nodes[c.Node]
	}
	a.First = g.next
	g.settle(n, &a)
	a.State = n.state()
	return
}

func (g *group) compact(n *node, c command) {
	_, err := n.disk.CreateSnapshot(c.Index, &n.disk.members, []byte(c.Data))
	must(err)
	first, _ := n.disk.FirstIndex()
	if c.Index >= first+c.Keep {
		must(n.disk.Compact(c.Index - c.Keep))
	}
}

// settle does all that a node asks for.
func (g *group) settle(n *node, a *answer) {
	for n.HasReady() {
		ready := n.Ready()
		a.Synced = a.Synced || ready.MustSync || !raft.IsEmptySnap(ready.Snapshot)
		if !raft.IsEmptySnap(ready.Snapshot) {
			must(n.disk.ApplySnapshot(ready.Snapshot))
			at := ready.Snapshot.Metadata
			n.applied = at.Index
			a.Applied = append(a.Applied, []any{"snapshot", at.Index, at.Term, string(ready.Snapshot.Data)})
		}
		must(n.disk.Append(ready.Entries))
		if !raft.IsEmptyHardState(ready.HardState) {
			must(n.disk.SetHardState(ready.HardState))
		}
		for _, message := range ready.Messages {
			a.Messages = append(a.Messages, told(message))
			g.sent[g.next] = message
			g.next++
		}
		for _, entry := range ready.CommittedEntries {
			a.Applied = append(a.Applied, []any{entry.Index, entry.Term, string(entry.Data)})
			n.applied = entry.Index
		}
		for _, read := range ready.ReadStates {
			a.Reads = append(a.Reads, []any{string(read.RequestCtx), read.Index})
		}
		n.Advance(ready)
	}
}

func (n *node) state() []any {
	status := n.BasicStatus()
	roles := map[raft.StateType]string{
		raft.StateFollower: "follower", raft.StatePreCandidate: "pre-candidate",
		raft.StateCandidate: "candidate", raft.StateLeader: "leader",
	}
	last, _ := n.disk.LastIndex()
	term, err := n.disk.Term(last)
	must(err)
	return []any{
		status.Term, status.Vote, status.Commit, n.applied, roles[status.RaftState], status.Lead, status.LeadTransferee,
		last, term,
	}
}

// log returns the last position that was cut off, and the entries behind it.
func (n *node) log() [][]any {
	first, _ := n.disk.FirstIndex()
	last, _ := n.disk.LastIndex()
	term, err := n.disk.Term(first - 1)
	must(err)
	found := [][]any{{first - 1, term}}
	if first <= last {
		entries, err := n.disk.Entries(first, last+1, 1<<40)
		must(err)
		found = append(found, listed(entries)...)
	}
	return found
}

func listed(entries []pb.Entry) [][]any {
	found := make([][]any, 0, len(entries))
	for _, entry := range entries {
		found = append(found, []any{entry.Index, entry.Term, string(entry.Data)})
	}
	return found
}

// told returns a message as the script compares it.
func told(m pb.Message) []any {
	round := 0
	if m.Type == pb.MsgHeartbeat || m.Type == pb.MsgHeartbeatResp {
		round, _ = strconv.Atoi(string(m.Context))
	}
	head := func(kind string, more ...any) []any { return append([]any{kind, m.From, m.To, m.Term}, more...) }
	switch m.Type {
	case pb.MsgPreVote:
		return head("PreVoteRequest", m.Index, m.LogTerm)
	case pb.MsgPreVoteResp:
		return head("PreVoteAnswer", !m.Reject)
	case pb.MsgVote:
		return head("VoteRequest", m.Index, m.LogTerm, len(m.Context) > 0)
	case pb.MsgVoteResp:
		return head("VoteAnswer", !m.Reject)
	case pb.MsgApp:
		return head("Append", m.Index, m.LogTerm, m.Commit, listed(m.Entries))
	case pb.MsgAppResp:
		if m.Reject {
			return head("AppendRejected", m.Index, m.RejectHint, m.LogTerm)
		}
		return head("Appended", m.Index)
	case pb.MsgHeartbeat:
		return head("Heartbeat", m.Commit, round)
	case pb.MsgHeartbeatResp:
		return head("HeartbeatAnswer", round)
	case pb.MsgSnap:
		at := m.Snapshot.Metadata
		return head("InstallSnapshot", at.Index, at.Term, string(m.Snapshot.Data))
	case pb.MsgTimeoutNow:
		return head("CampaignNow")
	}
	return head(m.Type.String())
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	var g group
	for in.Scan() {
		var c command
		must(json.Unmarshal(in.Bytes(), &c))
		must(encoder.Encode(g.do(c)))
		must(out.Flush())
	}
	must(in.Err())
}
