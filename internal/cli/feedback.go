package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/feedback"
)

type feedbackCmd struct {
	Report reportFeedbackCmd `cmd:"" help:"Report what became of a message after its provider had accepted it."`
	Import importFeedbackCmd `cmd:"" help:"Take in the mails of a mailbox file that report failed deliveries or complaints."`
	Allow  allowAddressCmd   `cmd:"" help:"Let messages go to an address again that was stopped."`
}

type reportFeedbackCmd struct {
	Status   string `arg:"" name:"status" help:"accepted, delivered, read, deferred, bounced or complained."`
	Address  string `placeholder:"ADDRESS" help:"The address; without one, that of the delivery."`
	Delivery string `placeholder:"ID" help:"The delivery."`
	Step     int    `placeholder:"N" help:"Which message of the delivery: 1 is the first, 2 its first reminder."`
	Message  string `placeholder:"ID" help:"The provider's id of the message."`
	Soft     bool   `help:"Of a bounced message: its cause may pass, so that its address takes further ones."`
	Detail   string `placeholder:"TEXT" help:"The report in the provider's words."`
	remote
	jsonOnly
}

// Help is the long help.
func (reportFeedbackCmd) Help() string {
	return `bounced stops the address on the kind of channel of its delivery and, by mail, ends all subscriptions of who has it; complained ends
them. The others are recorded with the delivery. No status moves back. A delivery whose outcome was unknown counts as sent, since
its provider has it, and the fallback of one that has arrived is not sent.

  carillon feedback report bounced --address ann@example.org --detail "550 no such user"`
}

// Validate refuses a report of nobody.
func (c *reportFeedbackCmd) Validate() error {
	if c.Address == "" && c.Delivery == "" {
		return errors.New("name the --address or the --delivery")
	}
	return nil
}

// Run reports what became of a message.
func (c *reportFeedbackCmd) Run(s *session) error {
	answer, err := call(c.remote, func(api *client.Client) (client.FeedbackAnswer, error) {
		return api.Report(s.ctx, client.Feedback{Status: c.Status, Address: c.Address, Delivery: c.Delivery, Step: c.Step, Message: c.Message, Soft: c.Soft, Detail: c.Detail})
	})
	if err != nil {
		return err
	}
	return s.reported(c.JSON, answer)
}

// reported prints what reports have changed.
func (s *session) reported(asJSON bool, answer client.FeedbackAnswer) error {
	if asJSON {
		return printJSON(s.Out, answer)
	}
	rows := make([][]string, len(answer.Reports))
	for i, r := range answer.Reports {
		rows[i] = []string{
			feedback.Name(feedback.Status(r.Status), r.Soft), r.Address, r.Delivery, fmt.Sprint(r.Known), fmt.Sprint(r.Settled), fmt.Sprint(r.Cancelled), fmt.Sprint(r.Stopped), fmt.Sprint(r.Ended), r.Detail,
		}
	}
	s.table([]string{"status", "address", "delivery", "known", "settled", "cancelled", "stopped", "ended", "detail"}, rows)
	return nil
}

type importFeedbackCmd struct {
	File string `arg:"" name:"file" help:"A mailbox file (mbox), or a file with one mail; - is standard input."`
	remote
	jsonOnly
}

// Help is the long help.
func (importFeedbackCmd) Help() string {
	return `Mails that are no reports are passed over. The same file again records its reports again, and changes nothing else.

  carillon feedback import /var/mail/bounces

Exit status: 0 the file was read to its end · 1 it was not.`
}

// Run takes the mails of a file in.
func (c *importFeedbackCmd) Run(s *session) error {
	in := io.Reader(s.In)
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	all := client.FeedbackAnswer{Reports: []client.FeedbackReport{}}
	mails, passed := 0, 0
	for mail, err := range feedback.Mails(in) {
		if err != nil {
			return err
		}
		mails++
		answer, err := call(c.remote, func(api *client.Client) (client.FeedbackAnswer, error) { return api.ReportMail(s.ctx, mail) })
		var refused *client.Problem
		switch {
		case errors.As(err, &refused) && refused.Status == http.StatusUnprocessableEntity:
			passed++
		case err != nil:
			return fmt.Errorf("mail %d: %w", mails, err)
		}
		all.Reports = append(all.Reports, answer.Reports...)
	}
	if err := s.reported(c.JSON, all); err != nil || c.JSON {
		return err
	}
	fmt.Fprintf(s.Err, "%s, %s, %d passed over\n", count(mails, "mail"), count(len(all.Reports), "report"), passed)
	return nil
}

type allowAddressCmd struct {
	Address string `arg:"" name:"address" help:"The address."`
	remote
	jsonOnly
}

// Run lets messages go to an address again.
func (c *allowAddressCmd) Run(s *session) error {
	answer, err := call(c.remote, func(api *client.Client) (client.Allowed, error) { return api.AllowAddress(s.ctx, c.Address) })
	if err != nil {
		return err
	}
	outcome := "unchanged"
	if answer.Changed {
		outcome = "changed"
	}
	return s.wrote(c.JSON, answer, nil, nil, outcome, c.Address)
}
