# shellcheck shell=sh
# What the registry's login is made of on a K3s node. Sourced before the verbs that need it; defines
# functions only. registries.yaml comes with a mark in the place of the password, which lies in a
# file of its own, that only root reads.
REGISTRY_PASSWORD=/etc/rancher/k3s/registry-password
REGISTRY_MARK='@registry-password@'

escaped_password() { # as a text in double quotes of YAML
  sed 's/[\\"]/\\&/g' "$REGISTRY_PASSWORD" 2>/dev/null | head -n 1
}

with_password() { # stdin to stdout: the mark becomes the password
  password=$(escaped_password) mark=$REGISTRY_MARK awk '
    { at = index($0, ENVIRON["mark"]) }
    at { print substr($0, 1, at - 1) ENVIRON["password"] substr($0, at + length(ENVIRON["mark"])); next }
    { print }'
}

without_password() { # stdin to stdout: our password becomes the mark, and any other one a word
  password=$(escaped_password) mark=$REGISTRY_MARK awk '
    /^ *password: "/ {
      at = index($0, "\"")
      ours = ENVIRON["password"] != "" && $0 == substr($0, 1, at) ENVIRON["password"] "\""
      print substr($0, 1, at) (ours ? ENVIRON["mark"] : "another one") "\""
      next
    }
    { print }'
}
