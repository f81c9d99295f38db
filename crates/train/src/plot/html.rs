//! A report as one self-contained page: text, tables and charts, nothing fetched from elsewhere.

use super::svg::escape;

/// A report page.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Title of the page.
    pub title: String,
    /// A line below the title: what was run, and when.
    pub subtitle: String,
    /// The sections in order.
    pub sections: Vec<Section>,
}

/// A section with its heading.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Its contents in order.
    pub blocks: Vec<ReportBlock>,
}

/// A piece of a section.
#[derive(Debug, Clone)]
pub enum ReportBlock {
    /// A paragraph of plain text.
    Text(String),
    /// A table; cells that begin like a number stand to the right, those of several lines are shown so.
    Table {
        /// Names of the columns.
        head: Vec<String>,
        /// Rows of cells.
        rows: Vec<Vec<String>>,
    },
    /// A chart of this module with a caption (may be empty).
    Chart {
        /// SVG text.
        svg: String,
        /// Below the chart.
        caption: String,
    },
    /// Small charts, as many beside each other as the page is wide.
    Charts {
        /// SVG text of each.
        svgs: Vec<String>,
        /// Below them; may be empty.
        caption: String,
    },
    /// Words and what they mean.
    Words(Vec<(String, String)>),
    /// What is shown when its line is clicked.
    Fold {
        /// The line.
        summary: String,
        /// What it hides.
        blocks: Vec<ReportBlock>,
    },
    /// A command or a file, as it is.
    Code(String),
    /// A few large figures in a row: `(value, what it is)`.
    Figures(Vec<(String, String)>),
}

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--ink:#1c2430;--muted:#5b6675;--rule:#e3e7ec;--panel:#f6f8fa}\
@media screen and (prefers-color-scheme:dark){:root{--bg:#14181e;--ink:#e6eaf0;--muted:#9aa5b4;--rule:#2a323d;--panel:#1b2129}}\
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif}\
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}\
h1{font-size:1.9rem;line-height:1.2;margin:0}\
h2{font-size:1.25rem;margin:2.75rem 0 .75rem;padding-top:1rem;border-top:1px solid var(--rule)}\
.subtitle,figcaption{color:var(--muted)}\
p{max-width:46rem;white-space:pre-line}\
figure{margin:1.25rem 0;overflow-x:auto}\
figure svg{display:block;max-width:100%;height:auto}\
figcaption{font-size:.9rem;margin-top:.4rem}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1rem 0}\
th,td{padding:.35rem .9rem .35rem 0;text-align:left;border-bottom:1px solid var(--rule);white-space:pre-wrap;vertical-align:top}\
th{font-weight:600;color:var(--muted);font-size:.9rem}\
.n{text-align:right}\
pre{background:var(--panel);padding:.8rem 1rem;border-radius:6px;overflow-x:auto;font-size:.88rem}\
.figures{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.25rem 0}\
.figures div{background:var(--panel);border-radius:8px;padding:.8rem 1.1rem;min-width:8rem}\
.figures b{display:block;font-size:1.5rem;font-weight:600;font-variant-numeric:tabular-nums}\
.figures span{color:var(--muted);font-size:.9rem}\
.charts{display:flex;flex-wrap:wrap;gap:.4rem}\
.charts svg{flex:none}\
details{margin:.75rem 0}\
summary{cursor:pointer;color:var(--muted)}\
dl{max-width:46rem;font-size:.95rem}\
dt{font-weight:600;margin-top:.4rem}\
dd{margin:0;color:var(--muted)}\
@media (max-width:40rem){main{padding:1.25rem 1rem 3rem}.wide svg text{font-size:16px!important}th,td{padding-right:.6rem;font-size:.88rem}.figures div{min-width:6rem;flex:1 1 8rem}}\
@page{margin:1.6cm}\
@media print{:root{color-scheme:light}body{font-size:11pt}main{max-width:none;padding:0}h2{break-after:avoid}figure,table,.figures{break-inside:avoid}.charts svg{break-inside:avoid}details:not([open]){display:none}}";

impl Report {
    /// The page. Charts go in as they are; everything else is escaped.
    pub fn html(&self) -> String {
        let sections: String = self.sections.iter().map(section).collect();
        let title = escape(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
             <p class=\"subtitle\">{}</p>\n{sections}</main>\n</body>\n</html>\n",
            escape(&self.subtitle)
        )
    }
}

fn section(section: &Section) -> String {
    let blocks: String = section.blocks.iter().map(block).collect();
    format!("<section>\n<h2>{}</h2>\n{blocks}</section>\n", escape(&section.heading))
}

fn block(one: &ReportBlock) -> String {
    match one {
        ReportBlock::Text(text) => format!("<p>{}</p>\n", escape(text)),
        ReportBlock::Code(text) => format!("<pre>{}</pre>\n", escape(text)),
        ReportBlock::Table { head, rows } => table(head, rows),
        ReportBlock::Chart { svg, caption } => {
            format!("<figure class=\"wide\">\n{svg}{}</figure>\n", figcaption(caption))
        }
        ReportBlock::Charts { svgs, caption } => {
            let (svgs, caption) = (svgs.concat(), figcaption(caption));
            format!("<figure>\n<div class=\"charts\">{svgs}</div>{caption}</figure>\n")
        }
        ReportBlock::Words(words) => {
            let one = |(word, meaning): &(String, String)| {
                format!("<dt>{}</dt><dd>{}</dd>", escape(word), escape(meaning))
            };
            format!("<dl>{}</dl>\n", words.iter().map(one).collect::<String>())
        }
        ReportBlock::Fold { summary, blocks } => {
            let inside: String = blocks.iter().map(block).collect();
            format!("<details><summary>{}</summary>\n{inside}</details>\n", escape(summary))
        }
        ReportBlock::Figures(figures) => {
            let one = |(value, name): &(String, String)| {
                format!("<div><b>{}</b><span>{}</span></div>", escape(value), escape(name))
            };
            format!("<div class=\"figures\">{}</div>\n", figures.iter().map(one).collect::<String>())
        }
    }
}

fn figcaption(caption: &str) -> String {
    match caption {
        "" => String::new(),
        text => format!("<figcaption>{}</figcaption>", escape(text)),
    }
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    // A column is numeric if all its cells with anything in them are.
    let numeric = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|c| !c.is_empty()).peekable();
        cells.peek().is_some() && cells.all(|cell| begins_like_a_number(cell))
    };
    let line = |cells: &[String], tag: &str| -> String {
        let cell = |(i, text): (usize, &String)| {
            let class = if numeric(i) { " class=\"n\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escape(text))
        };
        format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
    };
    let body: String = rows.iter().map(|row| line(row, "td")).collect();
    let head = line(head, "th");
    format!("<div class=\"scroll\"><table>\n<thead>{head}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n")
}

fn begins_like_a_number(cell: &str) -> bool {
    cell.trim_start_matches(['-', '−', '+', '±']).starts_with(|c: char| c.is_ascii_digit()) || cell == "–"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(block: ReportBlock) -> String {
        let section = Section { heading: "h".into(), blocks: vec![block] };
        Report { title: "A & B".into(), subtitle: "s".into(), sections: vec![section] }.html()
    }

    #[test]
    fn text_is_escaped_and_charts_are_not() {
        let text = page(ReportBlock::Text("<script>alert(1)</script>".into()));
        assert!(!text.contains("<script>") && text.contains("<title>A &amp; B</title>"));
        let chart = page(ReportBlock::Chart { svg: "<svg></svg>".into(), caption: "a < b".into() });
        assert!(chart.contains("<svg></svg>") && chart.contains("a &lt; b"));
    }

    #[test]
    fn numeric_columns_stand_to_the_right() {
        let head = ["method", "accuracy", "shots"].map(String::from).to_vec();
        let row = ["CDKT", "65.21 ± 0.45", "5-shot"].map(String::from).to_vec();
        let other = ["DKT", "", "five"].map(String::from).to_vec();
        let html = page(ReportBlock::Table { head, rows: vec![row, other] });
        assert!(html.contains("<th>method</th><th class=\"n\">accuracy</th><th>shots</th>"), "{html}");
        assert!(html.contains("<td class=\"n\">65.21 ± 0.45</td>"));
    }

    #[test]
    fn the_page_asks_for_nothing_from_outside() {
        let html = page(ReportBlock::Figures(vec![("0.031".into(), "ECE".into())]));
        assert!(!html.contains("http") && !html.contains("src=") && !html.contains("url("));
        assert!(html.contains("<b>0.031</b><span>ECE</span>"));
    }
}
