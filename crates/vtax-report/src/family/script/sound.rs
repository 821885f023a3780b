//! What calls sounded like: on the page, and as tables.

use vtax_load::sip::{SoundDirection, SoundFigures};

use super::page::{Found, all};
use crate::data::RunData;
use crate::format::{duration, quantity};
use crate::html::parts::{titled, wide};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::table::{Table, count, number, text};

/// Shares of the calls, the worst first, whose best is told.
const WORST: [(f64, &str); 3] =
    [(0.05, "5 % are no better than"), (0.01, "1 % are no better than"), (0.0, "Worst call")];
/// What users say of a rating factor from so much on (G.107 table B.1).
const CLASSES: [(f64, &str); 6] = [
    (90.0, "very satisfied"),
    (80.0, "satisfied"),
    (70.0, "some dissatisfied"),
    (60.0, "many dissatisfied"),
    (50.0, "nearly all dissatisfied"),
    (0.0, "not recommended"),
];

/// Both directions of which something is known.
fn directions(sound: &SoundFigures) -> impl Iterator<Item = (&'static str, &SoundDirection)> {
    let both = [("to the service", &sound.up), ("from the service", &sound.down)];
    both.into_iter().filter(|(_, direction)| direction.ratings.calls() > 0)
}

/// What became of the packets, how it sounded, and how many calls sounded how; nothing where no call had sound.
pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for (label, loads) in all(data) {
        let heard: Vec<(&Found<'_>, &SoundFigures)> =
            loads.iter().filter_map(|found| Some((found, found.figures.sound.as_deref()?))).collect();
        if heard.iter().all(|(_, sound)| sound.calls == 0) {
            continue;
        }
        m.element(
            "p",
            &[],
            &titled("Packets of calls that have ended, of all trials that count, warm-up included", &label),
        );
        m.add(&packets(&heard));
        m.element("p", &[], &titled("Calls by how they sound, an estimate after ITU-T G.107", &label));
        m.add(&ratings(&heard));
    }
    if !m.is_empty() {
        let note = "Lost: meant to be sent, never came. Late: came after its time to be played. Jitter: interarrival jitter after RFC 3550, by \
                    call. R is the rating factor of a call, 93.2 where nothing is wrong; a call is as good as its worse direction. Silent: \
                    calls of which nothing came in that direction.";
        m.element("p", &[("class", "small-print")], note);
    }
    m
}

/// A share in percent.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { quantity(part as f64 / whole as f64, "1") }
}

fn packets(heard: &[(&Found<'_>, &SoundFigures)]) -> Markup {
    let columns = [
        ("Environment", false),
        ("Load", false),
        ("Direction", false),
        ("Calls", true),
        ("Packets", true),
        ("Lost", true),
        ("Late", true),
        ("Reordered", true),
        ("Damaged", true),
        ("Jitter, median", true),
        ("Jitter, highest", true),
        ("Silent", true),
    ];
    let mut table = PlainTable::new("", &columns);
    for (Found { label, measure, .. }, sound) in heard {
        for (name, direction) in directions(sound) {
            let packets = &direction.packets;
            let share = |part| percent(part, packets.intended);
            let row = [
                (*measure).to_owned(),
                name.to_owned(),
                direction.ratings.calls().to_string(),
                packets.intended.to_string(),
                share(packets.lost()),
                share(packets.late),
                share(packets.reordered),
                share(packets.damaged),
                duration(direction.jitter.quantile(0.5).0 as f64),
                duration(direction.jitter_max.max().0 as f64),
                direction.silent.to_string(),
            ];
            table.push(label, row);
        }
    }
    wide(&table.finish(), columns.len())
}

fn ratings(heard: &[(&Found<'_>, &SoundFigures)]) -> Markup {
    let mut columns =
        vec![("Environment", false), ("Load", false), ("Calls", true), ("R", true), ("MOS", true)];
    columns.extend(WORST.map(|(_, name)| (name, true)));
    columns.extend(CLASSES.map(|(_, name)| (name, true)));
    let mut table = PlainTable::new("", &columns);
    for (Found { label, measure, .. }, sound) in heard {
        let ratings = &sound.ratings;
        let mut row = vec![
            (*measure).to_owned(),
            ratings.calls().to_string(),
            format!("{:.1}", ratings.mean()),
            format!("{:.2}", ratings.mos()),
        ];
        row.extend(WORST.map(|(share, _)| {
            format!("R {:.1}, MOS {:.2}", ratings.quantile(share), ratings.mos_quantile(share))
        }));
        let mut better = ratings.calls();
        row.extend(CLASSES.map(|(from, _)| {
            let below = ratings.below(from);
            let own = better.saturating_sub(below);
            better = below;
            percent(own, ratings.calls())
        }));
        table.push(label, row);
    }
    wide(&table.finish(), columns.len())
}

/// Each direction of each load, and how many calls had which rating; none in a run without sound.
pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let columns = "cell,measure,direction,calls,untold_calls,silent_calls,intended,sent,received,lost,late,reordered,duplicates,damaged,stray,\
                   no_room,jitter_mean_ns,jitter_p50_ns,jitter_max_ns,rating,mos,rating_worst_5,rating_worst_1,rating_worst";
    let mut sounds = Table::new("script_sound", "Script sound", columns);
    let columns = "cell,measure,direction,rating,calls";
    let mut rated = Table::new("script_sound_calls", "Script calls by sound", columns);
    let mut any = false;
    for ((cell, measure), found) in &data.calls {
        let Some(sound) = found.sound.as_deref() else { continue };
        for (name, direction) in [("up", &sound.up), ("down", &sound.down)] {
            any = true;
            let (packets, ratings) = (&direction.packets, &direction.ratings);
            sounds.push([
                text(cell),
                text(measure),
                text(name),
                count(ratings.calls()),
                count(sound.untold),
                count(direction.silent),
                count(packets.intended),
                count(packets.sent),
                count(packets.received),
                count(packets.lost()),
                count(packets.late),
                count(packets.reordered),
                count(packets.duplicates),
                count(packets.damaged),
                count(packets.stray),
                count(packets.no_room),
                count(direction.jitter.mean().0),
                count(direction.jitter.quantile(0.5).0),
                count(direction.jitter_max.max().0),
                number(ratings.mean()),
                number(ratings.mos()),
                number(ratings.quantile(0.05)),
                number(ratings.quantile(0.01)),
                number(ratings.quantile(0.0)),
            ]);
        }
        let all = [("up", &sound.up.ratings), ("down", &sound.down.ratings), ("call", &sound.ratings)];
        for (name, ratings) in all {
            for (rating, calls) in ratings.iter() {
                rated.push([text(cell), text(measure), text(name), number(rating), count(calls)]);
            }
        }
    }
    if any { vec![sounds, rated] } else { Vec::new() }
}
