//! Pictures as they are drawn for a phone: their texts stay inside, and stand across no line.

use std::fs;

use vtax_fixture::{Options, create};
use vtax_report::write_all;

/// A letter is at least this wide in the smallest font of pictures, in pixels.
const LETTER: f64 = 5.5;
/// What the page leaves beside a picture.
const MARGIN: f64 = 10.0;

/// The pictures of a page that a phone shows.
fn pictures(page: &str) -> Vec<&str> {
    let narrow = page.split("<div class=\"narrow\">").skip(1);
    narrow.map(|rest| rest.split("</svg>").next().unwrap()).collect()
}

/// What follows the name of each element of a kind.
fn elements<'a>(picture: &'a str, name: &str) -> Vec<&'a str> {
    picture.split(&format!("<{name} ")).skip(1).collect()
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let start = format!("{name}=\"");
    let (_, rest) = element.split_once(&start).unwrap_or_else(|| panic!("no {name}: {element}"));
    rest.split('"').next().unwrap()
}

fn place(element: &str, name: &str) -> f64 {
    attribute(element, name).parse().unwrap()
}

/// The words of a text, each character reference one letter.
fn letters(element: &str) -> usize {
    let words = element.split('>').nth(1).and_then(|rest| rest.split('<').next()).unwrap();
    words
        .split('&')
        .map(|part| part.split_once(';').map_or(part, |(_, rest)| rest).chars().count())
        .sum::<usize>()
        + words.matches('&').count()
}

fn page() -> String {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 3, seconds: 1, rate: 200, ..Options::default() };
    let run = create(&directory.path().join("run"), &options).unwrap();
    write_all(&run).unwrap();
    fs::read_to_string(run.path().join("report.html")).unwrap()
}

#[test]
fn texts_stay_inside_and_stand_across_no_line() {
    let page = page();
    let pictures = pictures(&page);
    assert!(pictures.len() >= 3, "{}", pictures.len());
    let mut headings = 0;
    for picture in pictures {
        let width: f64 = attribute(picture, "viewBox").split(' ').nth(2).unwrap().parse().unwrap();
        assert!(width <= 400.0, "{width}");
        for text in elements(picture, "text") {
            let (x, length) = (place(text, "x"), letters(text) as f64 * LETTER);
            let from = match attribute(text, "text-anchor") {
                "start" => x,
                "middle" => x - length / 2.0,
                _ => x - length,
            };
            assert!(from >= -MARGIN && from + length <= width + MARGIN, "{from} {length}: {text}");
        }
        // The line of the baseline is drawn from top to bottom: what has a row of its own has nothing behind it.
        let Some((_, after)) = picture.split_once("class=\"one\"") else { continue };
        let rows: Vec<(f64, f64)> = elements(after, "rect")
            .iter()
            .filter(|rect| attribute(rect, "class") == "blank")
            .map(|rect| (place(rect, "y"), place(rect, "y") + place(rect, "height")))
            .collect();
        for text in elements(after, "text") {
            if matches!(attribute(text, "class"), "heading" | "label") {
                let y = place(text, "y");
                assert!(
                    rows.iter().any(|(top, bottom)| (*top..*bottom).contains(&y)),
                    "{y} {rows:?}: {text}"
                );
                headings += 1;
            }
        }
    }
    assert!(headings > 0, "no taxes were drawn");
}

/// What a table is read for stands on a line of its own where there is no room beside the rest.
#[test]
fn reasons_are_in_sight_on_a_phone() {
    let page = page();
    let tables = page.split("<table").skip(1).map(|rest| rest.split("</thead>").next().unwrap());
    let told: Vec<&str> =
        tables.filter(|head| [">Why<", ">Found<"].iter().any(|name| head.contains(name))).collect();
    assert!(told.len() >= 2, "{told:?}");
    for head in told {
        let by_itself = |class| matches!(class, "stacked" | "verdicts");
        assert!(attribute(head, "class").split(' ').any(by_itself), "{head}");
    }
}
