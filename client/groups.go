package client

import (
	"context"
	"net/url"
)

// Group is a set of contacts that is defined.
type Group struct {
	Name     string `json:"name" doc:"The name of the group."`
	Where    string `json:"where,omitempty" doc:"The condition by which contacts belong to it; absent if it names them."`
	IDs      int    `json:"ids,omitempty" doc:"How many ids of contacts it names. An id that no contact has yet is no member."`
	Computed bool   `json:"computed" doc:"False: the group is new or has changed, and its contacts are being computed. Messages to it go to the right ones meanwhile; members are those found so far."`
	Members  int64  `json:"members" doc:"How many contacts belong to it."`
}

// Groups lists groups.
type Groups struct {
	Items []Group `json:"items" doc:"Ordered by name."`
}

// GroupPage is a group with a page of its contacts.
type GroupPage struct {
	Group
	Items      []Contact `json:"items" doc:"Contacts that belong to it, the newest first."`
	NextCursor string    `json:"next_cursor,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

// GroupQuery selects a page of the contacts of a group.
type GroupQuery struct {
	Limit  int
	Cursor string
}

// Groups gives all groups that are defined.
func (c *Client) Groups(ctx context.Context) (Groups, error) {
	return get[Groups](ctx, c, "/v1/groups", nil)
}

// Group gives a group with a page of its contacts.
func (c *Client) Group(ctx context.Context, name string, q GroupQuery) (GroupPage, error) {
	v := values{}
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return get[GroupPage](ctx, c, "/v1/groups/"+url.PathEscape(name), url.Values(v))
}
