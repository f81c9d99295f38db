//! The look: two palettes, one set of class names.
//!
//! Colours are given by CSS classes, so that a chart follows the light or dark preference of whoever looks.
//! PNG has no preference and takes the light palette.

/// How many series colours there are; a chart with more starts again.
pub(super) const SERIES: usize = 6;

/// `(selector, property, light, dark)`.
const COLOURS: &[(&str, &str, &str, &str)] = &[
    (".sk-bg", "fill", "#ffffff", "#14181e"),
    (".sk text", "fill", "#1c2430", "#e6eaf0"),
    (".sk .sk-muted", "fill", "#5b6675", "#9aa5b4"),
    (".sk .sk-good", "fill", "#1f7a5c", "#5cc4a1"),
    (".sk .sk-bad", "fill", "#b83a32", "#f08a80"),
    (".sk-panel", "fill", "#f6f8fa", "#1b2129"),
    (".sk-track", "fill", "#e9edf1", "#29313b"),
    (".sk-grid", "stroke", "#e3e7ec", "#2a323d"),
    (".sk-axis", "stroke", "#8a94a1", "#66717f"),
    (".sk-diagonal", "stroke", "#3d4652", "#c3ccd7"),
    (".sk-over", "fill", "#d6483e", "#ef7d74"),
    (".sk-under", "fill", "#e0a526", "#e8bd5a"),
    (".sk-mark", "fill", "#173a5e", "#d3e6fa"),
    (".sk-fill0", "fill", "#2f6fb0", "#5b9bdc"),
    (".sk-fill1", "fill", "#d9731a", "#f0a04b"),
    (".sk-fill2", "fill", "#2b8a6c", "#5cc4a1"),
    (".sk-fill3", "fill", "#b8418a", "#e183bb"),
    (".sk-fill4", "fill", "#7659a8", "#b296e0"),
    (".sk-fill5", "fill", "#7a6a4f", "#c2b08f"),
    (".sk-line0", "stroke", "#2f6fb0", "#5b9bdc"),
    (".sk-line1", "stroke", "#d9731a", "#f0a04b"),
    (".sk-line2", "stroke", "#2b8a6c", "#5cc4a1"),
    (".sk-line3", "stroke", "#b8418a", "#e183bb"),
    (".sk-line4", "stroke", "#7659a8", "#b296e0"),
    (".sk-line5", "stroke", "#7a6a4f", "#c2b08f"),
    (".sk-tick-good", "stroke", "#1f7a5c", "#5cc4a1"),
    (".sk-tick-bad", "stroke", "#b83a32", "#f08a80"),
];

/// Rules that are the same in the light and in the dark.
const SHAPES: &str = "\
.sk text{font-family:\"Siskin Sans\",system-ui,-apple-system,\"Segoe UI\",sans-serif;font-size:11px}\
.sk .sk-title{font-size:14px;font-weight:600}\
.sk .sk-head{font-size:12px;font-weight:600}\
.sk .sk-small{font-size:10px}\
.sk-grid,.sk-axis{stroke-width:1;fill:none}\
.sk-diagonal{stroke-width:1.2;stroke-dasharray:4 3;fill:none}\
.sk-line0,.sk-line1,.sk-line2,.sk-line3,.sk-line4,.sk-line5{stroke-width:1.8;fill:none;stroke-linejoin:round}\
.sk-dashed{stroke-dasharray:5 3}\
.sk-band{fill-opacity:.16}\
.sk-soft{fill-opacity:.55}\
.sk-gap{fill-opacity:.38}\
.sk-contour{stroke:#ffffff;stroke-opacity:.75;stroke-width:.8;fill:none}\
.sk-half{stroke:#ffffff;stroke-width:1.8;fill:none}\
.sk-other{stroke:#101418;stroke-width:1;stroke-dasharray:3 2.5;fill:none}\
.sk-tick-good,.sk-tick-bad{stroke-width:2;fill:none;stroke-linecap:round;stroke-linejoin:round}";

/// The style sheet of every chart.
pub(super) fn style() -> String {
    let rules = |dark: bool| -> String {
        let colour =
            |c: &(&str, &str, &str, &str)| format!("{}{{{}:{}}}", c.0, c.1, if dark { c.3 } else { c.2 });
        COLOURS.iter().map(colour).collect()
    };
    format!("{SHAPES}{}@media screen and (prefers-color-scheme:dark){{{}}}", rules(false), rules(true))
}

/// A colour of the sequential map from dark blue (0) over green to yellow (1); outside is cut.
pub(super) fn sequential(value: f64) -> [u8; 3] {
    const ANCHORS: [[f64; 3]; 6] = [
        [52.0, 20.0, 92.0],
        [58.0, 74.0, 138.0],
        [40.0, 122.0, 142.0],
        [46.0, 166.0, 122.0],
        [140.0, 205.0, 80.0],
        [250.0, 230.0, 60.0],
    ];
    let at = value.clamp(0.0, 1.0) * (ANCHORS.len() - 1) as f64;
    let low = (at as usize).min(ANCHORS.len() - 2);
    let part = at - low as f64;
    std::array::from_fn(|i| (ANCHORS[low][i] + part * (ANCHORS[low + 1][i] - ANCHORS[low][i])).round() as u8)
}
