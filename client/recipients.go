package client

import (
	"context"
	"net/url"
	"strconv"
)

// Recipients says who the audience of a workflow is now.
type Recipients struct {
	Workflow   string           `json:"workflow" doc:"Its name."`
	Trigger    string           `json:"trigger,omitempty" doc:"The trigger that a run by hand uses; absent: it has no id."`
	Count      int              `json:"count" doc:"How many people the audience has."`
	New        int              `json:"new" doc:"Of these: addresses without a contact. A run would make one for each."`
	Suppressed int              `json:"suppressed" doc:"Of these: contacts to whom nothing is sent."`
	Most       int              `json:"max_recipients_per_run,omitzero" doc:"After so many people a run is held until a person releases it; absent: it takes up any number."`
	Sample     []AudienceMember `json:"sample" doc:"The first of them, in the order in which a run takes them up."`
}

// AudienceMember is one person of an audience.
type AudienceMember struct {
	Contact    string `json:"contact,omitempty" doc:"The contact's id; absent: there is none yet."`
	Address    string `json:"address,omitempty" doc:"At which the definition names them; absent: their own."`
	Timezone   string `json:"timezone,omitempty" doc:"The contact's own; absent: they have none."`
	Suppressed bool   `json:"suppressed,omitempty" doc:"Nothing is sent to them."`
}

// Recipients returns who the audience of a workflow is now, and up to sample of them. It makes and changes nothing. The workflow must be one that can be
// run by hand.
func (c *Client) Recipients(ctx context.Context, workflow string, sample int) (Recipients, error) {
	return get[Recipients](ctx, c, "/v1/workflows/"+url.PathEscape(workflow)+"/recipients", url.Values{"sample": {strconv.Itoa(sample)}})
}
