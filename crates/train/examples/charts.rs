//! Draws every kind of chart, to look at: `cargo run -p siskin-train --example charts -- DIR`.
//! All but the two of likelihoods show invented data.

use std::path::PathBuf;

use siskin_calib::Reliability;
use siskin_train::plot::*;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("Name the folder to write the charts to.")?);
    std::fs::create_dir_all(&folder)?;
    let charts = [
        ("reliability", reliability()?),
        ("curve", curve()),
        ("steps", steps()),
        ("episode", episode()?),
        ("confidence", confidence_histograms(0, &[1.0])?.svg()),
        ("likelihoods", likelihood_surfaces()?),
    ];
    for (name, svg) in &charts {
        std::fs::write(folder.join(format!("{name}.svg")), svg)?;
        std::fs::write(folder.join(format!("{name}.png")), render_png(svg, 2.0)?)?;
    }
    std::fs::write(folder.join("report.html"), report(&charts).html())?;
    Ok(())
}

/// Numbers in [0, 1) that look random enough for a picture.
fn noise(i: usize) -> f64 {
    (i as f64 * 12.9898).sin().mul_add(43758.5453, 0.0).rem_euclid(1.0)
}

fn reliability() -> Outcome<String> {
    let diagram = |bend: f64| -> Outcome<Reliability> {
        let confidences: Vec<f64> = (0..4000).map(|i| 0.2 + 0.8 * noise(i).powf(0.5)).collect();
        let correct: Vec<bool> =
            confidences.iter().enumerate().map(|(i, p)| noise(i + 7919) < p.powf(bend)).collect();
        Ok(Reliability::of_confidences(&confidences, &correct, 15)?)
    };
    let diagrams = [diagram(1.0)?, diagram(2.2)?, diagram(0.5)?];
    let titles = ["CUB (ML)", "CUB → mini-ImageNet (ML)", "mini-ImageNet (PL)"];
    let panel =
        |(title, reliability)| ReliabilityPanel { title: String::from(title), reliability, nll: Some(0.612) };
    Ok(reliability_diagrams(&titles.into_iter().zip(&diagrams).map(panel).collect::<Vec<_>>()))
}

fn curve() -> String {
    let loss = |rate: f64, floor: f64, seed: usize| -> Vec<(f64, f64)> {
        let at = |i: usize| floor + 1.6 * (-(i as f64) / rate).exp() + 0.2 * (noise(i + seed) - 0.5);
        (0..300).map(|i| (200.0 * i as f64, at(i))).collect()
    };
    let series = |name: &str, points| Series { name: name.into(), points, spread: vec![] };
    LineChart {
        title: "Training".into(),
        x_name: "episodes".into(),
        y_name: "loss per query".into(),
        series: vec![
            series("training loss", loss(40.0, 0.4, 0)),
            series("validation loss", loss(50.0, 0.55, 77)),
        ],
    }
    .svg()
}

fn steps() -> String {
    let series = |name: &str, points: [f64; 7]| Series {
        name: name.into(),
        points: points.iter().enumerate().map(|(i, &y)| (i as f64 + 1.0, y)).collect(),
        spread: vec![0.5, 0.45, 0.4, 0.5, 0.6, 0.8, 0.9],
    };
    LineChart {
        title: "Accuracy against mean-field steps".into(),
        x_name: "steps".into(),
        y_name: "accuracy (%)".into(),
        series: vec![
            series("CUB", [63.9, 65.2, 65.3, 64.6, 63.8, 62.7, 62.1]),
            series("CUB → mini-ImageNet", [64.3, 64.4, 64.4, 63.9, 63.0, 62.6, 62.0]),
        ],
    }
    .svg()
}

fn episode() -> Outcome<String> {
    let blob = |class: usize, seed: usize, side: u32| Thumbnail {
        width: side,
        height: side,
        pixels: (0..side * side)
            .map(|i| {
                let (x, y) = (f64::from(i % side) / f64::from(side), f64::from(i / side) / f64::from(side));
                let wave = (6.0 * (x * (class + 1) as f64 + y * noise(seed) * 2.0)).sin();
                if wave.abs() < 0.35 { 20 } else { 245 }
            })
            .collect(),
    };
    let names = ["Angelic 3", "Tengwar 12", "a very long class name, cut to fit", "Tifinagh 7", "ULOG 1"];
    let classes = names.iter().enumerate().map(|(c, name)| PlotClass {
        name: (*name).into(),
        support: (0..5).map(|s| blob(c, 10 * c + s, 28)).collect(),
    });
    let query = |(label, probs): (usize, [f64; 5])| PlotQuery {
        image: blob(label, 91 + label, 28),
        label,
        probs: probs.to_vec(),
    };
    let queries = [
        (0, [0.93, 0.02, 0.02, 0.02, 0.01]),
        (1, [0.05, 0.61, 0.22, 0.08, 0.04]),
        (2, [0.34, 0.1, 0.21, 0.3, 0.05]),
        (4, [0.0, 0.0, 0.0, 0.0, 1.0]),
    ];
    let episode =
        EpisodePlot { classes: classes.collect(), queries: queries.into_iter().map(query).collect() };
    Ok([episode.classes()?, episode.queries()?].concat().concat())
}

fn report(charts: &[(&str, String)]) -> Report {
    let cells = |row: [&str; 4]| row.map(String::from).to_vec();
    let mut sections = vec![Section {
        heading: "Result".into(),
        blocks: vec![
            ReportBlock::Figures(vec![
                ("65.2 %".into(), "accuracy, 1-shot".into()),
                ("0.021".into(), "ECE after scaling".into()),
            ]),
            ReportBlock::Text("This page shows how a report looks. Its numbers are invented.".into()),
            ReportBlock::Table {
                head: cells(["method", "accuracy", "ECE", "MCE"]),
                rows: vec![
                    cells(["CDKT (ML)", "65.21 ± 0.45", "0.012", "0.031"]),
                    cells(["DKT", "63.37 ± 0.19", "0.19", "0.26"]),
                ],
            },
            ReportBlock::Code("siskin train configs/cub-1shot.toml".into()),
        ],
    }];
    sections.extend(charts.iter().map(|(name, svg)| Section {
        heading: (*name).into(),
        blocks: vec![ReportBlock::Chart { svg: svg.clone(), caption: String::new() }],
    }));
    Report { title: "How charts look".into(), subtitle: "A gallery".into(), sections }
}
