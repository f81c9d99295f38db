//! Every form of the table: slopes against differences, edge cases, names, files.

use super::*;
use crate::linalg::inner;
use faer::Mat;
use proptest::prelude::*;

struct Problem {
    kernel: Kernel,
    x: Mat<f64>,
    x2: Mat<f64>,
    within: Vec<Mat<f64>>,
    between: Vec<Mat<f64>>,
    own: Vec<Mat<f64>>,
}

/// sum of G * K over K(X, X), K(X, X2), diag K(X2), each with weights of its own per class.
fn value(p: &Problem) -> f64 {
    let (f, f2) = (p.kernel.features(p.x.as_ref()).unwrap(), p.kernel.features(p.x2.as_ref()).unwrap());
    let parts = [
        (p.kernel.within(&f).unwrap(), &p.within),
        (p.kernel.between(&f, &f2).unwrap(), &p.between),
        (p.kernel.own(&f2).unwrap(), &p.own),
    ];
    let one = |(gram, g): &(Gram<'_>, &Vec<Mat<f64>>)| -> f64 {
        gram.of_classes(g.len()).iter().zip(*g).map(|(k, g)| inner(k, g)).sum()
    };
    parts.iter().map(one).sum()
}

fn gradient(p: &Problem) -> (Mat<f64>, Mat<f64>, KernelGradient) {
    let (f, f2) = (p.kernel.features(p.x.as_ref()).unwrap(), p.kernel.features(p.x2.as_ref()).unwrap());
    let mut g = KernelGradient::zeros(&p.kernel);
    let (mut z, mut z2) = (Mat::zeros(f.dim(), f.points()), Mat::zeros(f2.dim(), f2.points()));
    p.kernel.within(&f).unwrap().pull(&p.within, &mut z, &mut g);
    p.kernel.between(&f, &f2).unwrap().pull_between(&p.between, &mut z, &mut z2, &mut g);
    p.kernel.own(&f2).unwrap().pull(&p.own, &mut z2, &mut g);
    (f.pull_back(&z), f2.pull_back(&z2), g)
}

fn matrix(rows: usize, cols: usize, values: &mut impl Iterator<Item = f64>) -> Mat<f64> {
    let mut m = Mat::zeros(rows, cols);
    for j in 0..cols {
        for i in 0..rows {
            m[(i, j)] = values.next().unwrap();
        }
    }
    m
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_adjoint_matches_differences(
        name in prop::sample::select(AnyForm::names()), normalise: bool, per_class: [bool; 3], ard: bool,
        numbers in prop::collection::vec(-2.0..2.0f64, 150),
    ) {
        let (n, m, d, classes) = (4, 3, 3, 2);
        let mut numbers = numbers.into_iter();
        let mut kernel = Kernel::new(AnyForm::named(&name).unwrap());
        kernel.normalise = normalise;
        if per_class[0] { kernel = kernel.scale_per_class(classes) }
        if per_class[1] { kernel = kernel.shape_per_class(classes) }
        if ard && !kernel.form.on_unit_vectors() {
            kernel = kernel.length_per_input(d * if per_class[2] { classes } else { 1 });
        }
        kernel.check(classes).unwrap();
        for raw in kernel.raw_scale.iter_mut().chain(&mut kernel.raw_lengths) { *raw += numbers.next().unwrap() }
        for raw in &mut kernel.raw_shape { *raw = 0.75 + 0.6 * numbers.next().unwrap() }
        let mut p = Problem {
            kernel, x: matrix(n, d, &mut numbers), x2: matrix(m, d, &mut numbers),
            within: (0..classes).map(|_| matrix(n, n, &mut numbers)).collect(),
            between: (0..classes).map(|_| matrix(n, m, &mut numbers)).collect(),
            own: (0..classes).map(|_| matrix(m, 1, &mut numbers)).collect(),
        };
        // Vectors near the origin turn fast: differences need a smaller step there than the test takes.
        prop_assume!((0..n).all(|i| p.x.row(i).norm_l2() > 0.3) && (0..m).all(|i| p.x2.row(i).norm_l2() > 0.3));
        let (dx, dx2, g) = gradient(&p);
        let h = 1e-5;
        let largest = |v: &[f64]| v.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let scale = 1.0 + dx.norm_max().max(dx2.norm_max()).max(largest(&g.raw_lengths)).max(largest(&g.raw_shape));
        macro_rules! check {
            ($entry:expr, $got:expr) => {{
                let kept = $entry;
                $entry = kept + h;
                let up = value(&p);
                $entry = kept - h;
                let down = value(&p);
                $entry = kept;
                let want = (up - down) / (2.0 * h);
                prop_assert!(($got - want).abs() < 1e-7 * scale, "{} {}: {:?}", $got, want, p.kernel);
            }};
        }
        for i in 0..n { for c in 0..d { check!(p.x[(i, c)], dx[(i, c)]); } }
        for i in 0..m { for c in 0..d { check!(p.x2[(i, c)], dx2[(i, c)]); } }
        for i in 0..p.kernel.raw_shape.len() { check!(p.kernel.raw_shape[i], g.raw_shape[i]); }
        for i in 0..p.kernel.raw_lengths.len() { check!(p.kernel.raw_lengths[i], g.raw_lengths[i]); }
        for c in 0..p.kernel.raw_scale.len() { check!(p.kernel.raw_scale[c], g.raw_scale[c]); }
    }
}

#[test]
fn coincident_points_and_the_zero_vector_are_harmless() {
    let x = Mat::from_fn(3, 2, |i, j| if i == 2 { 0.0 } else { 1.0 + j as f64 });
    for name in AnyForm::names() {
        let kernel = Kernel::new(AnyForm::named(&name).unwrap());
        let f = kernel.features(x.as_ref()).unwrap();
        let gram = kernel.within(&f).unwrap();
        let mut g = KernelGradient::zeros(&kernel);
        let mut z = Mat::zeros(2, 3);
        gram.pull(&[Mat::from_fn(3, 3, |_, _| 1.0)], &mut z, &mut g);
        assert!(f.pull_back(&z).norm_max().is_finite() && g.raw_shape.iter().all(|g| g.is_finite()));
        let k = &gram.of_classes(1)[0];
        // Two points that coincide have noise of their own.
        let shapes = kernel.shapes();
        let white = kernel.form.beside().white.map_or(0.0, |place| kernel.scale(0) * shapes[place]);
        assert!((k[(0, 1)] + white - k[(0, 0)]).abs() < 1e-15, "{name}");
        assert!(white > 0.0 || k[(0, 1)] == k[(0, 0)], "{name}");
        assert_eq!(kernel.own(&f).unwrap().of_classes(1)[0][(1, 0)], k[(1, 1)]);
    }
}

#[test]
fn what_is_no_kernel_is_named() {
    assert!(matches!(Polynomial::new(u32::MAX), Err(Error::OutOfRange { what: "power", .. })));
    assert!(AnyForm::named("poly0").is_none() && AnyForm::named("poly3").is_some());
    let rbf = Kernel::new(Rbf);
    let none = Kernel { raw_scale: Vec::new(), ..rbf.clone() };
    assert!(matches!(none.check(2), Err(Error::Shape { expected: 2, got: 0, .. })));
    let many = Kernel { raw_shape: vec![0.0; 3], ..rbf.clone() };
    assert!(matches!(many.check(2), Err(Error::Shape { expected: 2, got: 3, .. })));
    let infinite = Kernel { raw_shape: vec![f64::INFINITY], ..rbf.clone() };
    assert!(matches!(infinite.check(2), Err(Error::NotFinite { what: "raw kernel shape", .. })));
    assert!(Kernel::new(Cosine).length_per_input(2).check(2).is_err());
    // Unchecked they give no wrong number, or an error.
    let x = rbf.features(faer::mat![[2.0, 1.0, 0.0]].as_ref()).unwrap();
    assert!(none.within(&x).unwrap().of_classes(2)[1][(0, 0)].is_nan());
    assert!(rbf.clone().length_per_input(2).within(&x).is_err());
    assert!(rbf.scale_per_class(3).scale(3).is_nan());
}

/// The names of configs of version 0.1 and the bytes of its files.
#[test]
fn names_and_files_of_version_0_1_are_read() {
    assert_eq!(AnyForm::named("matern"), Some(Matern52.into()));
    for json in [
        r#"{"kind":"cosine","normalise":true,"raw_shape":0.0,"raw_scale":[0.5,0.25]}"#,
        r#"{"kind":"matern52","normalise":false,"raw_shape":-0.125,"raw_scale":[0.5]}"#,
        r#"{"kind":{"polynomial":{"power":2}},"normalise":true,"raw_shape":1.5,"raw_scale":[0.5]}"#,
    ] {
        let kernel: Kernel = serde_json::from_str(json).unwrap();
        kernel.check(2).unwrap();
        assert_eq!(serde_json::to_string(&kernel).unwrap(), json);
    }
    let new = Kernel::new(RationalQuadratic).shape_per_class(2).length_per_input(3);
    let back: Kernel = serde_json::from_str(&serde_json::to_string(&new).unwrap()).unwrap();
    assert_eq!(back, new);
    assert!(
        serde_json::from_str::<Kernel>(r#"{"kind":"rbff","normalise":true,"raw_shape":0,"raw_scale":[0]}"#)
            .is_err()
    );
}
