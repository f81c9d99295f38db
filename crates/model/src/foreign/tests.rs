//! Foreign networks on small files that are made here.

use super::tiny::{conv, file, float, floats, network, node, number, text, value, wholes};
use super::*;
use crate::{Model, View};
use siskin_data::Image;
use std::sync::atomic::AtomicBool;

fn tried(bytes: Vec<u8>, wishes: &Wishes) -> Result<Inspected, ForeignFault> {
    inspect(bytes, wishes)
}

fn refusal(bytes: Vec<u8>, wishes: &Wishes) -> String {
    tried(bytes, wishes).unwrap_err().to_string()
}

fn image(kind: u32) -> Image {
    let pixel =
        |i: u32| [(i * (kind + 3) % 256) as u8, (i / 20 * 9 * kind % 256) as u8, (40 * kind % 256) as u8];
    Image { width: 20, height: 30, channels: 3, pixels: (0..600).flat_map(pixel).collect() }
}

#[test]
fn input_and_outputs_are_read() {
    let found = tried(network(Some(16)), &Wishes::default()).unwrap();
    let spec = &found.spec;
    assert_eq!((spec.input.as_str(), spec.output.as_str(), spec.dim), ("x", "features", 8));
    assert_eq!((spec.layout, spec.pool, spec.preprocessing.size), (Layout::Nchw, Pool::None, 16));
    assert_eq!(found.inputs, ["`x` [?, 3, 16, 16]"]);
    // The file leaves the map's sides free; they follow from the input's.
    assert_eq!(found.outputs, ["`features` [?, 8]", "`map` [?, 8, 8, 8]"]);
    // A free size is the preset's, or the one asked for; a map of features is averaged.
    let wishes = Wishes { size: Some(32), output: Some("map".into()), ..Wishes::default() };
    let free = tried(network(None), &wishes).unwrap().spec;
    assert_eq!((free.preprocessing.size, free.pool, free.dim), (32, Pool::Mean, 8));
    assert_eq!(tried(network(None), &Wishes::default()).unwrap().spec.preprocessing.size, 224);
}

#[test]
fn the_mean_over_a_map_is_what_the_network_pools_itself() {
    let of = |output: &str| {
        let wishes = Wishes { output: Some(output.into()), ..Wishes::default() };
        let spec = tried(network(Some(16)), &wishes).unwrap().spec;
        let pixels = spec.preprocessing.pixels(&image(1));
        let network = ForeignNetwork::load(spec, network(Some(16))).unwrap();
        network.features(&[&pixels], &AtomicBool::new(false)).unwrap().unwrap()
    };
    let (pooled, mean) = (of("features"), of("map"));
    assert!(pooled.iter().zip(&mean).all(|(a, b)| (a - b).abs() < 1e-6), "{pooled:?} {mean:?}");
}

#[test]
fn a_convolution_gives_what_its_formula_gives() {
    // One filter of ones over each whole channel: features are sums of normalised pixels.
    let nodes = [conv(&["x", "w"], "c", 1, 0), node("Flatten", &["c"], "y", &[])];
    let mut weights = vec![0.0f32; 2 * 3 * 64];
    weights[..64].fill(1.0); // the first filter sums red, ...
    weights[64 * 5..].fill(1.0); // ... the second blue
    let bytes = file(
        &nodes,
        &[floats("w", &[2, 3, 8, 8], &weights)],
        &[value("x", &[Some(1), Some(3), Some(8), Some(8)])],
        &[value("y", &[Some(1), Some(2)])],
    );
    let wishes = Wishes { mean: Some([0.5, 0.0, 0.0]), std: Some([0.5, 1.0, 0.25]), ..Wishes::default() };
    let spec = tried(bytes.clone(), &wishes).unwrap().spec;
    let pixels: Vec<u8> = (0..64).flat_map(|i| [i as u8 * 2, 7, 255 - i as u8]).collect();
    let network = ForeignNetwork::load(spec, bytes).unwrap();
    let got = network.features(&[&pixels], &AtomicBool::new(false)).unwrap().unwrap();
    let red: f32 = (0..64).map(|i| (2.0 * i as f32 / 255.0 - 0.5) / 0.5).sum();
    let blue: f32 = (0..64).map(|i| (255.0 - i as f32) / 255.0 / 0.25).sum();
    assert!((got[0] - red).abs() < 1e-3 && (got[1] - blue).abs() < 1e-3, "{got:?} {red} {blue}");
}

#[test]
fn what_onnx_takes_as_one_where_it_is_left_out_is_one_here() {
    // Convolution, pooling and dropout with every attribute left out that may be, and the same written out.
    let made = |short: bool| {
        let ones = [("strides", &[1, 1][..])];
        let kernel = ("kernel_shape", &[2, 2][..]);
        let weights: Vec<f32> = (0..2 * 3 * 4).map(|i| i as f32 / 10.0 - 1.0).collect();
        let mut nodes = match short {
            true => vec![
                node("Conv", &["x", "w"], "c", &[]),
                node("MaxPool", &["c"], "m", &[kernel]),
                node("AveragePool", &["m"], "a", &[kernel]),
                node("Dropout", &["a", "ratio"], "d", &[]),
            ],
            false => vec![
                conv(&["x", "w"], "c", 1, 0),
                node("MaxPool", &["c"], "m", &[kernel, ones[0]]),
                node("AveragePool", &["m"], "a", &[kernel, ones[0]]),
                node("Identity", &["a"], "d", &[]),
            ],
        };
        nodes.push(node("Flatten", &["d"], "y", &[]));
        file(
            &nodes,
            &[floats("w", &[2, 3, 2, 2], &weights), floats("ratio", &[1], &[0.5])],
            &[value("x", &[Some(1), Some(3), Some(8), Some(8)])],
            &[value("y", &[Some(1), None])],
        )
    };
    let of = |bytes: Vec<u8>| {
        let spec = tried(bytes.clone(), &Wishes::default()).unwrap().spec;
        let pixels: Vec<u8> = (0..192u32).map(|i| (i * i % 251) as u8).collect();
        let network = ForeignNetwork::load(spec, bytes).unwrap();
        network.features(&[&pixels], &AtomicBool::new(false)).unwrap().unwrap()
    };
    assert_eq!((of(made(true)).len(), of(made(true))), (2 * 5 * 5, of(made(false))));
}

#[test]
fn an_output_of_class_scores_names_what_they_are_computed_from() {
    let layer = |columns: u64, last: &[Vec<u8>]| {
        let weights: Vec<f32> = (0..3 * columns).map(|i| (i % 7) as f32 - 3.0).collect();
        let nodes = [
            &[
                node("GlobalAveragePool", &["x"], "p", &[]),
                node("Flatten", &["p"], "before", &[]),
                node("Dropout", &["before"], "dropped", &[]),
            ],
            last,
        ]
        .concat();
        let inputs = [value("x", &[None, Some(3), Some(16), Some(16)])];
        let bytes =
            file(&nodes, &[floats("w", &[3, columns], &weights)], &inputs, &[value("y", &[None, None])]);
        tried(bytes, &Wishes::default()).unwrap()
    };
    let scores = |columns| {
        layer(columns, &[node("Gemm", &["dropped", "w"], "s", &[]), node("Softmax", &["s"], "y", &[])]).scores
    };
    assert_eq!(scores(1_000), Some(ClassScores { classes: 1_000, features: Some("before".into()) }));
    assert_eq!(scores(512), None, "a projection");
    let product = layer(1_001, &[node("MatMul", &["dropped", "w"], "y", &[])]);
    assert_eq!(product.scores.unwrap().classes, 1_001);
    assert_eq!(tried(network(Some(16)), &Wishes::default()).unwrap().scores, None);
}

#[test]
fn blue_may_come_first() {
    // Features are the means of the channels in the order in which the network gets them.
    let nodes = [node("GlobalAveragePool", &["x"], "p", &[]), node("Flatten", &["p"], "y", &[])];
    let of = |bgr: bool, shape: [Option<u64>; 4]| {
        let bytes = file(&nodes, &[], &[value("x", &shape)], &[value("y", &[None, Some(3)])]);
        let (mean, std) = (Some([0.0; 3]), Some([1.0, 0.5, 0.25]));
        let spec = tried(bytes.clone(), &Wishes { mean, std, bgr, ..Wishes::default() }).unwrap().spec;
        let network = ForeignNetwork::load(spec, bytes).unwrap();
        let pixels: Vec<u8> = (0..64).flat_map(|_| [51, 102, 204]).collect();
        network.features(&[&pixels], &AtomicBool::new(false)).unwrap().unwrap()
    };
    let shape = [None, Some(3), Some(8), Some(8)];
    let near = |a: Vec<f32>, b: [f32; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(near(of(false, shape), [0.2, 0.8, 3.2]) && near(of(true, shape), [3.2, 0.8, 0.2]));
    let spec = tried(network(Some(16)), &Wishes::default()).unwrap().spec;
    assert!(!serde_json::to_string(&spec).unwrap().contains("bgr"), "hashes of specs are what they were");
}

#[test]
fn what_is_wrong_is_said_in_one_sentence() {
    let none = Wishes::default();
    let good = network(Some(16));
    for cut in [0, 1, 10, good.len() / 2, good.len() - 1] {
        let error = refusal(good[..cut].to_vec(), &none);
        assert!(!error.contains('\n') && error.len() < 500, "{cut}: {error}");
    }
    assert!(refusal(b"P5 1 1 255 x".to_vec(), &none).contains("no ONNX network"));
    let with = |wishes| refusal(network(Some(16)), &wishes);
    assert!(
        with(Wishes { output: Some("logits".into()), ..none.clone() })
            .contains("no output `logits`; it has `features`")
    );
    assert!(with(Wishes { size: Some(20), ..none.clone() }).contains("16 x 16 pixels, not of 20 x 20"));
    assert!(with(Wishes { std: Some([0.0; 3]), ..none.clone() }).contains("standard deviation is 0"));
    let bytes = with(Wishes { mean: Some([127.0; 3]), ..none.clone() });
    assert!(
        bytes.contains("the mean is 127") && bytes.contains("divide mean and standard deviation by 255"),
        "{bytes}"
    );
    let with = |nodes: &[Vec<u8>], constants: &[Vec<u8>], inputs: &[Vec<u8>]| {
        refusal(file(nodes, constants, inputs, &[value("y", &[None, None])]), &none)
    };
    let x = value("x", &[None, Some(3), Some(16), Some(16)]);
    let relu = [node("Relu", &["x"], "r", &[]), node("Flatten", &["r"], "y", &[])];
    let unknown = [node("Dream", &["x"], "y", &[])];
    assert!(
        with(&unknown, &[], std::slice::from_ref(&x)).contains("Dream"),
        "{}",
        with(&unknown, &[], std::slice::from_ref(&x))
    );
    let two = [x.clone(), value("text", &[None, Some(77)])];
    assert!(with(&relu, &[], &two).contains("wants more than an image"));
    assert!(
        with(&relu, &[], &[value("x", &[Some(8), Some(3), Some(16), Some(16)])]).contains("exactly 8 images")
    );
    assert!(with(&relu, &[], &[value("x", &[None, Some(5), Some(16), Some(16)])]).contains("colour images"));
    let nothing = [node("Mul", &["x", "zero"], "m", &[]), node("Flatten", &["m"], "y", &[])];
    assert!(
        with(&nothing, &[floats("zero", &[1], &[0.0])], std::slice::from_ref(&x)).contains("same features")
    );
    let endless = [node("Div", &["x", "zero"], "m", &[]), node("Flatten", &["m"], "y", &[])];
    assert!(with(&endless, &[floats("zero", &[1], &[0.0])], std::slice::from_ref(&x)).contains("not finite"));
    let misfit = [node("Reshape", &["x", "to"], "y", &[])];
    let error = with(&misfit, &[wholes("to", &[7, 11])], &[x]);
    assert!(error.contains("cannot be run"), "{error}");
}

#[test]
fn a_changed_byte_anywhere_is_refused_or_gives_an_error_and_never_a_panic() {
    let good = network(Some(8));
    for place in 0..good.len() {
        let mut bytes = good.clone();
        bytes[place] ^= 0x40;
        // Weights may change to other numbers; whatever happens, it returns.
        let _ = tried(bytes, &Wishes::default());
    }
}

#[test]
fn added_models_are_kept_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::new(folder.path());
    assert!(registry.names().is_empty());
    let spec = tried(network(Some(16)), &Wishes::default()).unwrap().spec;
    registry.add("tiny", &spec, &network(Some(16))).unwrap();
    let again = registry.add("tiny", &spec, &network(Some(16))).unwrap_err().to_string();
    assert!(again.contains("siskin model remove tiny"), "{again}");
    let inside = registry.spec("mini-imagenet-conv4").unwrap_err().to_string();
    assert!(inside.contains("inside the program"), "{inside}");
    for name in ["", "../up", "a/b", ".hidden", "omniglot-conv4s", "a b", &"x".repeat(65)] {
        assert!(registry.add(name, &spec, b"").is_err(), "{name}");
    }
    assert_eq!((registry.names(), registry.spec("tiny").unwrap()), (vec!["tiny".to_owned()], spec));
    let (now, later) =
        (Model::added(&registry, "tiny").unwrap(), Model::added_later(&registry, "tiny").unwrap());
    assert_eq!((now.hash(), registry.name_of(now.hash())), (later.hash(), Some("tiny".into())));
    let view = now.view(&image(2));
    assert_eq!(now.embed([&view]).unwrap(), later.embed([&view]).unwrap());
    let broken = Model::added_later(&registry, "tiny").unwrap();
    let path = folder.path().join("models/tiny/network.onnx");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = registry.open("tiny").err().unwrap().to_string();
    assert!(error.contains("damaged or was changed"), "{error}");
    assert!(broken.embed([&view]).unwrap_err().to_string().contains("damaged or was changed"));
    registry.remove("tiny").unwrap();
    assert!(registry.names().is_empty() && registry.remove("tiny").is_err());
}

#[test]
fn features_have_the_same_bits_alone_together_and_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::new(folder.path());
    let spec = tried(network(Some(16)), &Wishes::default()).unwrap().spec;
    registry.add("tiny", &spec, &network(Some(16))).unwrap();
    let model = Model::added(&registry, "tiny").unwrap();
    let views: Vec<View> = (0..9).map(|kind| model.view(&image(kind))).collect();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| model.embed(&views)).unwrap()
    };
    let (one, four) = (with(1), with(4));
    assert_eq!(one, four);
    assert_eq!(one.values[8 * 4..8 * 5], model.embed(&views[4..5]).unwrap().values);
    let length = |row: &[f64]| row.iter().map(|v| v * v).sum::<f64>().sqrt();
    assert!(one.values.chunks_exact(8).all(|row| (length(row) - 1.0).abs() < 1e-12));
    assert!(model.card().is_err() && model.to_bytes().is_err());
    let other = Model::open(crate::EMBEDDED[0].0).unwrap();
    assert!(other.embed(&views).unwrap_err().to_string().contains("prepared for another model"));
}

/// A network that resizes its input of 8 x 8 pixels by a cubic `Resize`, with these attributes and to scales or sizes.
fn resizing(attributes: &[Vec<u8>], scales: Option<&[f32]>, sizes: &[i64]) -> Vec<u8> {
    let (inputs, by) = match scales {
        Some(scales) => (&["x", "", "by"][..], floats("by", &[4], scales)),
        None => (&["x", "", "", "by"][..], wholes("by", sizes)),
    };
    let resize = [node("Resize", inputs, "r", &[]), text("mode", "cubic"), attributes.concat()].concat();
    let input = value("x", &[Some(1), Some(3), Some(8), Some(8)]);
    file(&[resize, node("Flatten", &["r"], "y", &[])], &[by], &[input], &[value("y", &[Some(1), None])])
}

/// What becomes of the red of a photo whose pixels are the squares of 0 to 63, modulo 251.
fn red(network: Vec<u8>) -> Vec<f32> {
    let wishes = Wishes { mean: Some([0.0; 3]), std: Some([1.0; 3]), ..Wishes::default() };
    let found = tried(network.clone(), &wishes).unwrap();
    assert_eq!((found.inputs.len(), found.outputs.len()), (1, 1), "what is taken out is not seen outside");
    let pixels: Vec<u8> = (0..64u32).flat_map(|i| [(i * i % 251) as u8, 0, 0]).collect();
    let network = ForeignNetwork::load(found.spec, network).unwrap();
    let features = network.features(&[&pixels], &AtomicBool::new(false)).unwrap().unwrap();
    features[..features.len() / 3].to_vec()
}

#[test]
fn a_cubic_resize_gives_what_onnx_runtime_gives() {
    // What ONNX Runtime 1.31.1 gives for the same operators.
    let coordinates = |name: &str| text("coordinate_transformation_mode", name);
    let cases: [(Vec<u8>, &[f32]); 5] = [
        (
            resizing(&[], None, &[1, 3, 10, 2]),
            &[
                -0.012631, 0.081926, 0.272281, 0.525198, 0.282966, 0.91631, 0.308356, 0.80368, 0.594119,
                0.453416, 0.481896, 0.69573, 0.326296, 0.283841, 0.605404, 0.208678, 0.845051, 0.46901,
                0.650308, 0.569201,
            ],
        ),
        (
            resizing(&[coordinates("pytorch_half_pixel")], None, &[1, 3, 1, 11]),
            &[
                -0.000299, 0.0011, 0.006853, 0.016709, 0.028866, 0.047549, 0.071424, 0.095484, 0.124473,
                0.166093, 0.196046,
            ],
        ),
        (
            resizing(&[coordinates("asymmetric")], Some(&[1.0, 1.0, 0.4, 0.6]), &[]),
            &[
                0.0, 0.010022, 0.044154, 0.098039, 0.153064, 0.418714, 0.570965, 0.54326, 0.368627, 0.215468,
                0.540523, 0.066667,
            ],
        ),
        (
            resizing(&[coordinates("align_corners"), float("cubic_coeff_a", -0.5)], None, &[1, 3, 5, 3]),
            &[
                0.0, 0.048039, 0.192157, 0.053462, 0.52042, 0.229871, 0.183088, 0.503753, 0.436029, 0.342739,
                0.589685, 0.672212, 0.486275, 0.595098, 0.8,
            ],
        ),
        (
            resizing(&[number("exclude_outside", 1)], None, &[1, 3, 2, 9]),
            &[
                0.129645, 0.206957, 0.302065, 0.392424, 0.556556, 0.727348, 0.861855, 0.873854, 0.475202,
                0.257144, 0.576082, 0.557467, 0.277195, 0.59658, 0.552968, 0.074432, 0.539654, 0.414035,
            ],
        ),
    ];
    for (network, wanted) in cases {
        let found = red(network);
        assert_eq!(found.len(), wanted.len());
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 2e-6), "{found:?}\n{wanted:?}");
    }
}

#[test]
fn a_cubic_resize_that_is_not_known_is_refused() {
    let refused =
        |attributes: &[Vec<u8>]| refusal(resizing(attributes, None, &[1, 3, 2, 2]), &Wishes::default());
    let antialias = refused(&[number("antialias", 1)]);
    assert!(
        antialias.contains("a cubic `Resize` that has antialias = 1") && antialias.contains("ORT_DYLIB_PATH"),
        "{antialias}"
    );
    assert!(
        refused(&[text("coordinate_transformation_mode", "tf_crop_and_resize")])
            .contains("tf_crop_and_resize")
    );
    let many = refusal(resizing(&[], None, &[1, 3, 2]), &Wishes::default());
    assert!(many.contains("4 axes has 3 scales or sizes"), "{many}");
    let huge = refusal(resizing(&[], None, &[1, 3, 1 << 20, 1 << 20]), &Wishes::default());
    assert!(huge.contains("a cubic Resize of 8 to 1048576"), "{huge}");
}
