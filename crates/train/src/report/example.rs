//! The first test episode with its images and the probabilities as predicted.

use crate::error::{Error, Result};
use crate::evaluate::AnsweredEpisode;
use crate::plot::{EpisodePlot, PlotClass, PlotQuery, ReportBlock, Thumbnail};
use crate::protocol;
use crate::under_test::ModelUnderTest;
use siskin_data::{Episode, Items, Split, SplitName, Transform};
use siskin_random::stream;

/// Queries of each class that are drawn.
const QUERIES_SHOWN: usize = 2;

/// The blocks of the section.
pub(super) fn blocks(model: &ModelUnderTest, answers: &[AnsweredEpisode]) -> Result<Vec<ReportBlock>> {
    let episodes = protocol::episodes(model, SplitName::Test, 1)?;
    let (Some(episode), Some(answer)) = (episodes.first(), answers.first()) else { return Ok(Vec::new()) };
    let split = model.data.split(SplitName::Test);
    if matches!(split.items, Items::Embeddings(_)) {
        return Ok(vec![ReportBlock::Text("The data are vectors: there is no picture to show.".into())]);
    }
    let plot = plot(episode, answer, split, &model.data.test_transform)?;
    let drawn = |e| Error::Run(format!("the example episode cannot be drawn: {e}"));
    Ok(vec![
        ReportBlock::Text("The first test episode. What it was shown:".into()),
        ReportBlock::Charts { svgs: plot.classes().map_err(drawn)?, caption: String::new() },
        ReportBlock::Text(format!(
            "What it was asked, {QUERIES_SHOWN} images of each class, and the probabilities as predicted (before any tuning). A \
             tick stands for a right answer; the true class is in bold:"
        )),
        ReportBlock::Charts { svgs: plot.queries().map_err(drawn)?, caption: String::new() },
    ])
}

fn plot(
    episode: &Episode,
    answer: &AnsweredEpisode,
    split: &Split,
    transform: &Transform,
) -> Result<EpisodePlot> {
    let classes = episode.classes.iter().map(|class| {
        let images = class.support.iter().map(|&item| thumbnail(split, transform, item));
        let name = split.items.classes()[class.class].name.clone();
        Ok(PlotClass { name, support: images.collect::<Result<_>>()? })
    });
    let probabilities = answer.prediction.probabilities.chunks_exact(answer.prediction.way);
    let items = episode.classes.iter().enumerate();
    let items = items.flat_map(|(label, class)| class.query.iter().map(move |&item| (label, item)));
    let mut shown = vec![0; episode.way()];
    let queries = items.zip(probabilities).filter(|((label, _), _)| {
        shown[*label] += 1;
        shown[*label] <= QUERIES_SHOWN
    });
    let queries = queries.map(|((label, item), p)| {
        Ok(PlotQuery { image: thumbnail(split, transform, item)?, label, probs: p.to_vec() })
    });
    Ok(EpisodePlot { classes: classes.collect::<Result<_>>()?, queries: queries.collect::<Result<_>>()? })
}

/// An item as the network sees it, before normalisation.
fn thumbnail(split: &Split, transform: &Transform, item: usize) -> Result<Thumbnail> {
    Ok(match &split.items {
        Items::Images(data) => {
            // The evaluation transform draws no random number.
            let image = transform.pixels(&data.image(item)?, &mut stream(0, "evaluate", 0));
            Thumbnail { width: image.width, height: image.height, pixels: image.pixels }
        }
        Items::Embeddings(_) => Thumbnail { width: 1, height: 1, pixels: vec![128] },
    })
}
