package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/key"
)

const feedbackPath = "/v1/feedback"

type postFeedback struct {
	Body client.Feedback
}

type postFeedbackMail struct {
	Body struct {
		Mail []byte `json:"mail" minLength:"1" doc:"The mail as it came, in base64."`
	}
}

type allowAddress struct {
	Body struct {
		Address string `json:"address" minLength:"1" maxLength:"254" doc:"The address, as an e-mail address or a telephone number."`
	}
}

// feedback takes in what is reported of messages that were sent.
func (a *API) feedback() {
	tags := []string{"feedback"}
	route(a, http.MethodPost, feedbackPath, ScopeIngest, huma.Operation{
		OperationID: "post-feedback", Summary: "Report what became of a message after its provider had accepted it", Tags: tags,
	}, func(ctx context.Context, c Caller, in *postFeedback) (*body[client.FeedbackAnswer], error) {
		r := feedback.Report{
			Status: feedback.Status(in.Body.Status), Soft: in.Body.Soft, Address: strings.TrimSpace(in.Body.Address), Delivery: in.Body.Delivery, Step: in.Body.Step,
			Message: in.Body.Message, Detail: in.Body.Detail,
		}
		if strings.ContainsRune(r.Address+r.Message+r.Detail, 0) {
			return nil, invalid("body.detail", "it holds U+0000, which no database keeps", "leave it out")
		}
		if r.Delivery != "" {
			if _, err := a.idsOf(c.Workspace).deliveryID(r.Delivery); err != nil {
				return nil, err
			}
		} else if r.Address == "" {
			return nil, invalid("body.address", "it is missing, and so is delivery: nothing says whom the report is about", "name the address, or the delivery")
		}
		if r.Soft && r.Status != feedback.Bounced {
			return nil, invalid("body.soft", "it is of use with the status bounced alone", "leave it out")
		}
		return a.takeFeedback(ctx, c, "", []feedback.Report{r})
	})
	route(a, http.MethodPost, feedbackPath+"/mail", ScopeIngest, huma.Operation{
		OperationID: "post-feedback-mail", Summary: "Take in a mail that reports a failed delivery (RFC 3464) or a complaint (RFC 5965)", Tags: tags,
	}, func(ctx context.Context, c Caller, in *postFeedbackMail) (*body[client.FeedbackAnswer], error) {
		reports, err := feedback.Parse(bytes.NewReader(in.Body.Mail))
		if errors.Is(err, feedback.ErrNoReport) {
			return nil, invalid("body.mail", err.Error(), "send mails whose type is multipart/report")
		}
		if err != nil {
			return nil, err
		}
		return a.takeFeedback(ctx, c, "email", reports)
	})
	route(a, http.MethodPost, feedbackPath+"/allow", ScopeOperate, huma.Operation{
		OperationID: "allow-address", Summary: "Let messages go to an address again that was stopped", Tags: tags,
	}, func(ctx context.Context, c Caller, in *allowAddress) (*body[client.Allowed], error) {
		wire := func(changed bool) client.Allowed { return client.Allowed{Changed: changed} }
		changed, err := a.Engine.Receipts().Allow(ctx, c.Workspace, in.Body.Address, c.Name, a.Clock.Now(), once(a, c, wire))
		if err != nil {
			return nil, err
		}
		return &body[client.Allowed]{wire(changed)}, nil
	})
}

// receiptsOf returns reports with the deliveries that they are about, which came by a channel, or by none. A delivery that is not of the workspace is not known.
func (a *API) receiptsOf(c Caller, by string, reports []feedback.Report) []receipt.Report {
	x := a.idsOf(c.Workspace)
	list := make([]receipt.Report, len(reports))
	for i, r := range reports {
		list[i] = receipt.Report{Status: r.Status, Soft: r.Soft, Address: r.Address, Channel: by, Step: r.Step, Message: r.Message, Detail: r.Detail, Actor: c.Name}
		if id, ok := x.decode(key.KindDelivery, r.Delivery); ok {
			list[i].Delivery = delivery.ID(id)
		}
	}
	return list
}

// takeFeedback takes in reports about messages on a kind of channel; empty: of any.
func (a *API) takeFeedback(ctx context.Context, c Caller, kind string, reports []feedback.Report) (*body[client.FeedbackAnswer], error) {
	wire := func(taken []receipt.Taken) client.FeedbackAnswer {
		answer := client.FeedbackAnswer{Reports: make([]client.FeedbackReport, len(taken))}
		for i, t := range taken {
			answer.Reports[i] = client.FeedbackReport{
				Status: string(reports[i].Status), Soft: reports[i].Soft, Address: reports[i].Address, Delivery: reports[i].Delivery, Detail: reports[i].Detail, Known: t.Known,
				Settled: t.Settled, Cancelled: t.Cancelled, Stopped: t.Stopped, Ended: t.Ended,
			}
		}
		return answer
	}
	taken, err := a.Engine.Receipts().Take(ctx, c.Workspace, a.receiptsOf(c, kind, reports), a.Clock.Now(), once(a, c, wire))
	if err != nil {
		return nil, err
	}
	return &body[client.FeedbackAnswer]{wire(taken)}, nil
}
