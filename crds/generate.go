package crds

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:allowDangerousTypes=true paths=./v1 output:crd:dir=bases
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:allowDangerousTypes=true paths=./rules/v1alpha1 output:crd:dir=bases
