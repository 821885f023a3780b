//! What a user does with keys and a pointer.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use vtax_plan::model::DesktopActions;
use vtax_wire::desktop::{self, MARKER_HEIGHT, button};
use vtax_wire::rfb::client;

use super::result::Kind;

/// How far from the desktop's edges a pointer stays, in pixels.
const MARGIN: u16 = 64;
/// How far a step of a drag goes at most.
const STEP: u16 = 40;
/// Steps of a drag before the button is released. Each is an action.
const STEPS: u32 = 5;

/// A user: what was decided is the next action, and where the pointer is.
#[derive(Debug)]
pub(super) struct User {
    random: Xoshiro256PlusPlus,
    actions: DesktopActions,
    /// Size of the desktop.
    size: (u16, u16),
    at: (u16, u16),
    /// Steps left of a drag; 0: no button is down.
    dragging: u32,
}

impl User {
    pub(super) fn new(actions: DesktopActions, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { random, actions, size: desktop::LEAST, at: (MARGIN, MARGIN), dragging: 0 }
    }

    /// The desktop has this size.
    pub(super) fn sees(&mut self, width: u16, height: u16) {
        self.size = (width.max(desktop::LEAST.0), height.max(desktop::LEAST.1));
        self.dragging = 0;
    }

    /// What is begun while no button is down.
    fn kind(&mut self) -> Kind {
        let DesktopActions { typing, scroll, drag, film } = self.actions;
        // Weights are of actions, and who begins a drag takes all of its steps: the others are begun so many times as often.
        let of = [
            (Kind::Type, typing * STEPS),
            (Kind::Scroll, scroll * STEPS),
            (Kind::Drag, drag),
            (Kind::Film, film * STEPS),
        ];
        let all: u32 = of.iter().map(|(_, weight)| weight).sum();
        let mut left = self.random.random_range(0..all.max(1));
        for (kind, weight) in of {
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        Kind::Type
    }

    /// Another place, not far from the last, that has this tag. It differs from the last one, as the tag does.
    fn moves(&mut self, tag: u16) -> (u16, u16) {
        let mut toward = |now: u16, least: u16, most: u16| {
            let step = self.random.random_range(0..=2 * STEP);
            now.saturating_add(step).saturating_sub(STEP).clamp(least, most)
        };
        let x = toward(self.at.0, MARGIN, self.size.0 - MARGIN);
        let y = toward(self.at.1, MARGIN.max(MARKER_HEIGHT), self.size.1 - MARGIN);
        self.at = (desktop::tagged(x, tag), y);
        self.at
    }

    /// Takes the next action, which has this tag.
    pub(super) fn act(&mut self, tag: u16, out: &mut Vec<u8>) -> Kind {
        let kind = if self.dragging > 0 { Kind::Drag } else { self.kind() };
        match kind {
            Kind::Type => {
                client::key(out, true, desktop::keysym(tag));
                client::key(out, false, desktop::keysym(tag));
            }
            Kind::Scroll => {
                let wheel = if self.random.random_range(0..4) > 0 { button::ON } else { button::BACK };
                self.click(wheel, tag, out);
            }
            Kind::Film => self.click(button::FILM, tag, out),
            Kind::Drag => self.drag(tag, out),
        }
        kind
    }

    fn click(&mut self, button: u8, tag: u16, out: &mut Vec<u8>) {
        let (x, y) = self.moves(tag);
        for buttons in [0, 1 << (button - 1), 0] {
            client::pointer(out, buttons, x, y);
        }
    }

    /// A step of a drag; with the last one's end the button is released where the pointer is.
    fn drag(&mut self, tag: u16, out: &mut Vec<u8>) {
        let only = self.actions.typing + self.actions.scroll + self.actions.film == 0;
        let (x, y) = self.moves(tag);
        client::pointer(out, 1 << (button::DRAG - 1), x, y);
        // Who does nothing else never lets go.
        if only {
            return;
        }
        self.dragging = if self.dragging == 0 { STEPS } else { self.dragging } - 1;
        if self.dragging == 0 {
            client::pointer(out, 0, x, y);
        }
    }
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::DesktopScript;

    use super::*;

    #[test]
    fn every_action_has_its_tag_with_it() {
        for only in 0..4 {
            let weight = |kind| u32::from(only == kind);
            let actions =
                DesktopActions { typing: weight(0), scroll: weight(1), drag: weight(2), film: weight(3) };
            let mut user = User::new(actions, 5);
            user.sees(640, 480);
            let mut last = (0, 0);
            for number in 0..200_u16 {
                let (tag, mut out) = (desktop::tag(number), Vec::new());
                user.act(tag, &mut out);
                if only == 0 {
                    assert_eq!(out[..8], [4, 1, 0, 0, 0, 0, 0, 0x61 + tag as u8]);
                    continue;
                }
                let x = u16::from_be_bytes([out[2], out[3]]);
                let y = u16::from_be_bytes([out[4], out[5]]);
                assert_eq!(desktop::tag(x), tag);
                assert!((48..576).contains(&x) && (64..=416).contains(&y), "{x},{y}");
                assert_ne!((x, y), last, "a pointer that doesn't move says nothing");
                last = (x, y);
            }
        }
    }

    /// Everything that a user of a mix does, action by action.
    fn mixed(seed: u64, actions: u32) -> ([u32; 4], Vec<u8>) {
        let mut user = User::new(DesktopScript::Mix.actions(), seed);
        user.sees(1024, 768);
        let (mut counts, mut out) = ([0; 4], Vec::new());
        for number in 0..actions {
            counts[user.act(desktop::tag(number as u16), &mut out) as usize] += 1;
        }
        (counts, out)
    }

    /// Three quarters of a mix were steps of drags: one of ten choices was a drag, each of 25 steps then.
    #[test]
    fn a_mix_has_its_shares_and_no_button_stays_down() {
        let actions = 200_000;
        let (counts, out) = mixed(9, actions);
        for (kind, wanted) in Kind::ALL.into_iter().zip([0.6, 0.2, 0.1, 0.1]) {
            let share = f64::from(counts[kind as usize]) / f64::from(actions);
            // Drags come by the five: the share of their steps varies by 0.002, those of the others by less.
            assert!((share - wanted).abs() < 0.015, "{kind:?}: {share}");
        }
        let mut down = false;
        let mut rest = &out[..];
        while let Some(kind) = rest.first() {
            if *kind == 4 {
                assert!(!down, "typed while a button was down");
                rest = &rest[8..];
            } else {
                down = rest[1] != 0;
                rest = &rest[6..];
            }
        }
    }

    #[test]
    fn what_a_user_does_follows_from_the_seed() {
        assert_eq!(mixed(9, 2000), mixed(9, 2000));
        assert_ne!(mixed(9, 2000).1, mixed(10, 2000).1);
    }
}
