// Package joiner converts people with courses of their own between how they are stored and how they are planned.
package joiner

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Member is a person of a course as stored, who joined it now and has a course of their own.
func Member(course store.CourseRef, p plan.Person, now time.Time) store.CourseMember {
	return store.CourseMember{CourseRef: course, Contact: p.Contact, Name: p.Name, Start: p.Start.Date.String(), Moment: p.Start.Moment, JoinedAt: now}
}

// People are the people among members who have a course of their own, by their names in keys.
func People(members ...store.CourseMember) map[string]plan.Person {
	people := map[string]plan.Person{}
	for _, m := range members {
		if m.Own() {
			people[m.Name] = person(m)
		}
	}
	return people
}

func person(m store.CourseMember) plan.Person {
	p := plan.Person{Contact: m.Contact, Name: m.Name, Start: schedule.Start{Moment: m.Moment}}
	p.Start.Date, _ = civil.ParseDate(m.Start) // written by Member
	return p
}

// Mark is the mark that the first message of a course is expanded: who comes later joins late.
func Mark(course store.CourseRef, now time.Time) store.CourseMember {
	return store.CourseMember{CourseRef: course, JoinedAt: now}
}

// Founder is a person who was in the audience of the first message of a course.
func Founder(course store.CourseRef, id subject.ContactID, now time.Time) store.CourseMember {
	return store.CourseMember{CourseRef: course, Contact: id, JoinedAt: now}
}
