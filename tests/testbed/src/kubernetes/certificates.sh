# Certificates and kubeconfigs of a cluster with one node, in the folder FOLDER/pki:
# sh certificates.sh FOLDER NODE ADDRESS
set -eu
folder=$1/pki node=$2 address=$3
mkdir -p "$folder"
cd "$folder"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" 2>/dev/null; }

authority() {
    key "$1"
    openssl req -x509 -new -key "$1.key" -sha256 -days 3650 -subj "/CN=$1" -out "$1.crt" \
        -addext basicConstraints=critical,CA:true \
        -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
}

# sign AUTHORITY NAME SUBJECT USAGE [NAMES]
sign() {
    key "$2"
    openssl req -new -key "$2.key" -subj "$3" -out "$2.csr"
    {
        echo "keyUsage=critical,digitalSignature"
        echo "extendedKeyUsage=$4"
        [ -z "${5-}" ] || echo "subjectAltName=$5"
    } >"$2.ext"
    openssl x509 -req -in "$2.csr" -CA "$1.crt" -CAkey "$1.key" -CAcreateserial -days 3650 \
        -sha256 -extfile "$2.ext" -out "$2.crt" 2>/dev/null
}

kubeconfig() {
    cat >"$1.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:16443", certificate-authority: $folder/server-ca.crt}}]
users: [{name: u, user: {client-certificate: $folder/$1.crt, client-key: $folder/$1.key}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
END
}

authority server-ca
authority client-ca
service=kubernetes.default.svc
sign server-ca apiserver /CN=kube-apiserver serverAuth \
    "DNS:localhost,DNS:kubernetes,DNS:$service,DNS:$service.cluster.local,IP:127.0.0.1,IP:10.0.0.1,IP:$address"
sign server-ca kubelet-server "/CN=$node" serverAuth "DNS:$node,IP:127.0.0.1,IP:$address"
sign client-ca admin /O=system:masters/CN=admin clientAuth
sign client-ca controller /CN=system:kube-controller-manager clientAuth
sign client-ca scheduler /CN=system:kube-scheduler clientAuth
sign client-ca kubelet "/O=system:nodes/CN=system:node:$node" clientAuth
sign client-ca apiserver-kubelet /CN=kube-apiserver clientAuth
for name in admin controller scheduler kubelet; do kubeconfig $name; done
# The tokens of service accounts are signed by RSA.
openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
