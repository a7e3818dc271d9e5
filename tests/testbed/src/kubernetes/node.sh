# A node with its control plane, as process 1 of own cgroup, mount, network, UTS, IPC and
# process-id namespaces: sh node.sh FOLDER PROGRAMS NODE ADDRESS
# What it starts logs below FOLDER/log, and dies with it.
set -eu
folder=$1 programs=$2 node=$3 address=$4
pki=$folder/pki
mkdir -p "$folder/log" "$folder/etcd" "$folder/apiserver" "$folder/containerd" "$folder/kubelet" \
    "$folder/logs-of-pods" "$folder/plugins" "$folder/sysctl"

# Nothing that is mounted here leaves this namespace. The cgroups that the process is in are
# the roots of what is mounted anew.
mount --make-rprivate /
umount -R --lazy /sys/fs/cgroup
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 none /sys/fs/cgroup
while IFS=: read -r _ controllers _; do
    case $controllers in
    '')
        mkdir /sys/fs/cgroup/unified
        mount -t cgroup2 none /sys/fs/cgroup/unified
        ;;
    name=*)
        mkdir "/sys/fs/cgroup/${controllers#name=}"
        mount -t cgroup -o "none,$controllers" none "/sys/fs/cgroup/${controllers#name=}"
        ;;
    *)
        mkdir "/sys/fs/cgroup/$controllers"
        mount -t cgroup -o "$controllers" none "/sys/fs/cgroup/$controllers"
        ;;
    esac
done </proc/self/cgroup
mount -t bpf -o mode=700 bpf /sys/fs/bpf
for place in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 none $place; done
# Pods look for what is the kubelet's where it has its files by default.
mkdir /var/lib/kubelet
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --make-rshared /
hostname "$node"
mkdir -p /run/lock

# The kubelet writes to these, and they are the whole machine's: it is given plain files.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    file=$folder/sysctl/$(echo $setting | tr / _)
    cat /proc/sys/$setting >"$file"
    mount --bind "$file" /proc/sys/$setting
done

ip link set lo up
ip link add node0 type bridge
ip address add "$address/24" dev node0
ip link set node0 up
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
# The one service there is, without a kube-proxy.
for chain in OUTPUT PREROUTING; do
    iptables -t nat -A $chain -d 10.0.0.1 -p tcp --dport 443 -j DNAT --to-destination "$address:16443"
done
echo "nameserver 127.0.0.1" >"$folder/resolv.conf"
mount --bind "$folder/resolv.conf" /etc/resolv.conf
echo "127.0.0.1 localhost registry.example" >"$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts

begin() {
    name=$1
    shift
    "$@" >>"$folder/log/$name.log" 2>&1 &
}
kubectl() { "$programs/kubectl" --kubeconfig "$pki/admin.kubeconfig" "$@"; }

begin etcd "$programs/etcd" --data-dir="$folder/etcd" --unsafe-no-fsync --log-level=warn \
    --listen-client-urls=http://127.0.0.1:12379 --advertise-client-urls=http://127.0.0.1:12379 \
    --listen-peer-urls=http://127.0.0.1:12380 --initial-advertise-peer-urls=http://127.0.0.1:12380 \
    --initial-cluster=default=http://127.0.0.1:12380
begin apiserver "$programs/kube-apiserver" --etcd-servers=http://127.0.0.1:12379 \
    --bind-address=0.0.0.0 --advertise-address="$address" --secure-port=16443 \
    --cert-dir="$folder/apiserver" --tls-cert-file="$pki/apiserver.crt" \
    --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/client-ca.crt" \
    --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-cluster-ip-range=10.0.0.0/24 \
    --kubelet-client-certificate="$pki/apiserver-kubelet.crt" \
    --kubelet-client-key="$pki/apiserver-kubelet.key" \
    --kubelet-certificate-authority="$pki/server-ca.crt" \
    --kubelet-preferred-address-types=InternalIP --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction,PodSecurity,ServiceAccount --allow-privileged=false
begin containerd containerd --config "$folder/containerd.toml"
until kubectl get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done
begin controller-manager "$programs/kube-controller-manager" \
    --kubeconfig="$pki/controller.kubeconfig" \
    --authentication-kubeconfig="$pki/controller.kubeconfig" \
    --authorization-kubeconfig="$pki/controller.kubeconfig" \
    --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/server-ca.crt" \
    --use-service-account-credentials --leader-elect=false --bind-address=127.0.0.1
begin scheduler "$programs/kube-scheduler" --kubeconfig="$pki/scheduler.kubeconfig" \
    --leader-elect=false --bind-address=127.0.0.1
kubectl create clusterrolebinding kube-apiserver-kubelet-admin \
    --clusterrole=system:kubelet-api-admin --user=kube-apiserver >>"$folder/log/node.log"
begin kubelet "$programs/kubelet" --config="$folder/kubelet.yaml" \
    --kubeconfig="$pki/kubelet.kubeconfig" --hostname-override="$node" --node-ip="$address" \
    --root-dir="$folder/kubelet" --cert-dir="$folder/kubelet/pki"
while :; do
    wait
    sleep 1
done
