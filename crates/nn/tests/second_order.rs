//! Hessian-vector products of whole networks: against PyTorch, the plain composition, and symmetry.

use safetensors::SafeTensors;
use siskin_nn::{Architecture, Backbone, Body, DeviceChoice, Error, Images, Init, Linear, Network};

const WAY: usize = 3;

fn network(architecture: Architecture, width: usize, side: usize, fused: bool) -> Network<Linear> {
    let device = DeviceChoice::Cpu.open().unwrap().autodiff();
    let backbone = Backbone::with_width(architecture, width, 5, &device);
    let backbone = if fused { backbone } else { backbone.unfused() };
    let dim = match architecture {
        Architecture::ResNet12 => 10 * width,
        _ => width * (side / 16) * (side / 16),
    };
    Network::of_body(Body { backbone, head: Linear::new(dim, WAY, &mut Init::head(5, &device)) })
}

/// Reproducible numbers without a generator, about -1 to 1.
fn numbers(n: usize, step: usize) -> Vec<f32> {
    (0..n).map(|i| ((i + 1) * step % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// |a - b| / |b|.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let apart: Vec<f32> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    (dot(&apart, &apart) / dot(b, b)).sqrt()
}

const CASES: [(Architecture, usize, usize); 4] = [
    (Architecture::Conv4S, 4, 28),
    (Architecture::Conv4, 3, 33),
    (Architecture::Conv6, 4, 32),
    (Architecture::ResNet12, 2, 20),
];

/// Pixels, shape and labels of six images.
fn batch(architecture: Architecture, side: usize) -> (Vec<f32>, [usize; 4], [usize; 6]) {
    let shape = [6, architecture.channels(), side, side];
    (numbers(shape.iter().product(), 7919), shape, [0, 1, 2, 0, 1, 2])
}

/// A tensor of the golden file, which PyTorch made in double precision.
fn golden(name: &str) -> Vec<f32> {
    let file = include_bytes!("golden/second_order.safetensors");
    let file = SafeTensors::deserialize(file).unwrap();
    let values = file.tensor(name).unwrap().data().as_chunks::<4>().0;
    values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// Differences of gradients would not do: ReLUs and pools switch within intervals of 1e-5 of ResNet12 (the quotient is then wrong
/// by 44 times the product, in double precision too), and shorter ones leave nothing of single precision.
/// `scripts/make_second_order_golden.py --differences` prints that.
#[test]
fn gradients_and_products_are_those_of_pytorch_in_double_precision() {
    for (architecture, width, side) in CASES {
        let network = network(architecture, width, side, true);
        let (pixels, shape, labels) = batch(architecture, side);
        let images = Images::new(&pixels, shape).unwrap();
        let scaled = |step: usize, factor: f32| -> Vec<f32> {
            numbers(network.parameters().len(), step).iter().map(|x| factor * x).collect()
        };
        let (theta, v) = (scaled(4423, 0.3), scaled(3571, 0.1));
        let gradient = network.loss_gradient_at(&theta, images, &labels).unwrap().gradient;
        let d = distance(&gradient, &golden(&format!("{architecture}.gradient")));
        assert!(d < 1e-4, "{architecture}: gradients {d}");
        let product = network.hessian_vector_at(&theta, images, &labels, &v).unwrap();
        let d = distance(&product, &golden(&format!("{architecture}.product")));
        assert!(d < 1e-4, "{architecture}: products {d}");
    }
}

#[test]
fn the_fused_product_equals_the_plain_composition_and_is_symmetric() {
    for (architecture, width, side) in CASES {
        let (fused, plain) =
            (network(architecture, width, side, true), network(architecture, width, side, false));
        let (pixels, shape, labels) = batch(architecture, side);
        let images = Images::new(&pixels, shape).unwrap();
        let theta = fused.parameters();
        assert_eq!(theta, plain.parameters());
        let (u, v) = (numbers(theta.len(), 3571), numbers(theta.len(), 6007));
        let product = |network: &Network<Linear>, v: &[f32]| {
            network.hessian_vector_at(&theta, images, &labels, v).unwrap()
        };
        let (hv, hu) = (product(&fused, &v), product(&fused, &u));
        let d = distance(&hv, &product(&plain, &v));
        assert!(d < 1e-4, "{architecture}: fused and plain differ by {d}");
        let (a, b) = (dot(&u, &hv), dot(&v, &hu));
        assert!((a - b).abs() < 1e-3 * (dot(&u, &u) * dot(&hv, &hv)).sqrt(), "{architecture}: {a} {b}");
    }
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_threads() {
    for (architecture, width, side) in CASES {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let network = network(architecture, width, side, true);
                let (pixels, shape, labels) = batch(architecture, side);
                let images = Images::new(&pixels, shape).unwrap();
                let theta = network.parameters();
                let first = network.loss_gradient_at(&theta, images, &labels).unwrap();
                let product = network.hessian_vector_at(&theta, images, &labels, &first.gradient).unwrap();
                (first, product, network.scores_at(&theta, images).unwrap())
            })
        };
        assert_eq!(run(1), run(2), "{architecture}");
    }
}

#[test]
fn a_vector_of_the_wrong_length_is_refused() {
    let network = network(Architecture::Conv4S, 4, 28, true);
    let (pixels, shape, labels) = batch(Architecture::Conv4S, 28);
    let images = Images::new(&pixels, shape).unwrap();
    let theta = network.parameters();
    let short = network.hessian_vector_at(&theta, images, &labels, &theta[1..]);
    assert!(matches!(short, Err(Error::ParameterCount { found, .. }) if found + 1 == theta.len()));
    assert!(network.loss_gradient_at(&theta[1..], images, &labels).is_err());
    assert!(network.with_parameters(&theta[1..]).is_err());
}
