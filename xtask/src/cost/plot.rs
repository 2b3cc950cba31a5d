//! Plots as SVG, small enough to be read in a diff: lines over two logarithmic axes.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Okabe and Ito's: told apart by nearly everybody, on white and on black.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// A value with the ends of its interval, over a number.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// What it is over.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The interval's ends.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Line {
    /// What they are of.
    pub name: String,
    /// From left to right.
    pub points: Vec<Point>,
}

/// Lines, and what their axes are.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Above all.
    pub title: String,
    /// Below.
    pub x: String,
    /// Beside.
    pub y: String,
    /// In this order.
    pub lines: Vec<Line>,
    /// Names of the places on the horizontal axis, from 0 on, if they are no numbers.
    pub names: Vec<String>,
}

/// A part of an axis: from a number to another, to places on the page.
struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let scale = |v: f64| if self.logarithmic { v.max(self.from).log10() } else { v };
        let share = (scale(value) - scale(self.from)) / (scale(self.to) - scale(self.from));
        self.start + share * (self.end - self.start)
    }

    /// The powers of ten in it.
    fn tens(&self) -> Vec<f64> {
        let (from, to) = (self.from.log10().round() as i32, self.to.log10().round() as i32);
        (from..=to).map(|power| 10_f64.powi(power)).collect()
    }
}

/// The powers of ten around numbers.
fn decades(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for number in numbers.filter(|number| *number > 0.0) {
        (low, high) = (low.min(number), high.max(number));
    }
    if low > high {
        return (0.1, 1.0);
    }
    let (low, high) = (low.log10().floor(), high.log10().ceil());
    (10_f64.powf(low), 10_f64.powf(high.max(low + 1.0)))
}

impl Plot {
    /// The picture. What is not above zero lies on the lower edge, hollow.
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (from, to) = decades(points().flat_map(|p| [p.y, p.high]));
        let y = Axis { from, to, start: HEIGHT - BOTTOM, end: TOP, logarithmic: true };
        let (start, end) = (LEFT, WIDTH - RIGHT);
        let x = if self.names.is_empty() {
            let (from, to) = decades(points().map(|p| p.x));
            Axis { from, to, start, end, logarithmic: true }
        } else {
            let to = self.names.len() as f64 - 0.5;
            Axis { from: -0.5, to, start, end, logarithmic: false }
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        text(&mut svg, (LEFT, 22.0), "start", &self.title, " font-size=\"14\"");
        text(&mut svg, (f64::midpoint(start, end), HEIGHT - 8.0), "middle", &self.x, "");
        text(&mut svg, (LEFT, TOP - 6.0), "start", &self.y, " fill=\"#555\"");
        self.grid(&mut svg, &x, &y);
        for (number, line) in self.lines.iter().enumerate() {
            self.line(&mut svg, number, line, &x, &y);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn grid(&self, svg: &mut String, x: &Axis, y: &Axis) {
        for ten in y.tens() {
            let at = y.at(ten);
            rule(svg, (x.start, at), (x.end, at));
            text(svg, (x.start - 6.0, at + 4.0), "end", &grouped(ten), "");
        }
        if self.names.is_empty() {
            for ten in x.tens() {
                let at = x.at(ten);
                rule(svg, (at, y.start), (at, y.end));
                text(svg, (at, y.start + 16.0), "middle", &grouped(ten), "");
            }
        }
        for (place, name) in self.names.iter().enumerate() {
            text(svg, (x.at(place as f64), y.start + 16.0), "middle", name, "");
        }
    }

    fn line(&self, svg: &mut String, number: usize, line: &Line, x: &Axis, y: &Axis) {
        let colour = COLOURS[number % COLOURS.len()];
        // Places that are names have their points side by side, and nothing between them.
        let shift = |at: f64| {
            let middle = (self.lines.len() as f64 - 1.0) / 2.0;
            if self.names.is_empty() { at } else { at + (number as f64 - middle) * 8.0 }
        };
        if self.names.is_empty() {
            let path: Vec<String> =
                line.points.iter().map(|p| format!("{:.1},{:.1}", x.at(p.x), y.at(p.y))).collect();
            let _always = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
        }
        for point in &line.points {
            let at = shift(x.at(point.x));
            let fill = if point.y > 0.0 { colour } else { "#fff" };
            let _always = writeln!(
                svg,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" \
                 stroke=\"{colour}\"/><circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3.5\" \
                 fill=\"{fill}\" stroke=\"{colour}\"/>",
                y.at(point.low),
                y.at(point.high),
                y.at(point.y)
            );
        }
        let at = TOP + 14.0 + number as f64 * 18.0;
        let _always = writeln!(
            svg,
            "<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{colour}\"/>",
            x.end + 14.0,
            at - 4.0
        );
        text(svg, (x.end + 24.0, at), "start", &line.name, "");
    }
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _always = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, text: &str, more: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _always = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\"{more}>{text}</text>",
        at.0, at.1
    );
}

/// A number as people write it: below a million, and whole from a thousand on.
pub fn grouped(value: f64) -> String {
    if value >= 1_000.0 {
        let whole = value as u64;
        return format!("{},{:03}", whole / 1_000, whole % 1_000);
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(names: &[&str]) -> Plot {
        let point = |x, y| Point { x, y, low: y / 2.0, high: y * 2.0 };
        let places = if names.is_empty() { [1.0, 10.0, 1000.0] } else { [0.0, 1.0, 2.0] };
        let values = places.iter().zip([0.2, -1.0, 30.0]);
        let points = values.map(|(x, y)| point(*x, y)).collect();
        Plot {
            title: "a < b".to_owned(),
            x: "threads".to_owned(),
            y: "%".to_owned(),
            lines: vec![Line { name: "one".to_owned(), points }],
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn everything_is_on_the_page() {
        for names in [&[][..], &["a", "b", "c"]] {
            let svg = plot(names).svg();
            assert!(svg.contains("a &lt; b"), "{svg}");
            assert_eq!(svg.matches("r=\"3.5\"").count(), 3);
            for key in ["cx=\"", "cy=\"", " y1=\"", " x2=\""] {
                for part in svg.split(key).skip(1) {
                    let place: f64 = part.split('"').next().unwrap().parse().unwrap();
                    assert!((0.0..=WIDTH).contains(&place), "{key}{place}");
                }
            }
        }
        assert!(plot(&[]).svg().contains("1,000"));
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        let written = [0.1, 30.0, 1_000.0, 10_250.0].map(grouped);
        assert_eq!(written, ["0.1", "30", "1,000", "10,250"]);
    }

    #[test]
    fn axes_are_powers_of_ten_around_what_is_there() {
        assert_eq!(decades([0.3, 40.0].into_iter()), (0.1, 100.0));
        assert_eq!(decades([5.0].into_iter()), (1.0, 10.0));
        assert_eq!(decades([-5.0].into_iter()), (0.1, 1.0));
        let axis = Axis { from: 1.0, to: 100.0, start: 0.0, end: 50.0, logarithmic: true };
        assert_eq!(
            [axis.at(1.0), axis.at(10.0), axis.at(100.0), axis.at(-3.0)],
            [0.0, 25.0, 50.0, 0.0]
        );
        assert_eq!(axis.tens(), [1.0, 10.0, 100.0]);
    }
}
