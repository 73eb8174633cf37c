# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, driver_note, ... are set by input.sh and driver.sh
# Secure Boot: whether the kernel will take the RDMA modules on disk. A module names the certificate
# that signed it (`signer` of modinfo); the keys that count are those of MOK manager, of the firmware and
# of the kernel itself.

KERNEL_KEYS=/proc/keys
SHIM_KEY=/var/lib/shim-signed/mok/MOK.der
DKMS_KEY=/var/lib/dkms/mok.pub

secure_boot() { # enabled|disabled
  case $(mokutil --sb-state 2>/dev/null) in
    *'validation is disabled'*) echo disabled ;; # by shim, which tells the kernel
    *'SecureBoot enabled'*) echo enabled ;;
    '') # the fifth byte of the variable, after four of attributes
      boot_variable=/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
      case $(od -An -tu1 -j4 -N1 "$boot_variable" 2>/dev/null) in
        *1*) echo enabled ;;
        *) echo disabled ;;
      esac
      ;;
    *) echo disabled ;;
  esac
}

module_signer() { # KERNEL [MODULE]
  modinfo -k "$1" -F signer "${2:-mlx5_core}" 2>/dev/null | head -n 1
}

unsigned_kernels() { # under Secure Boot: those whose modules have no signature
  [ "$(secure_boot)" = enabled ] || return 0
  for kernel in $(driver_kernels); do
    [ -n "$(module_signer "$kernel")" ] || echo "$kernel"
  done
}

untrusted_kernels() { # under Secure Boot: those whose modules are signed by a key that is not enrolled
  [ "$(secure_boot)" = enabled ] || return 0
  for kernel in $(driver_kernels); do
    signer=$(module_signer "$kernel")
    [ -z "$signer" ] || [ "$(signer_enrolled "$signer")" != no ] || echo "$kernel"
  done
}

signer_enrolled() { # NAME : yes, no, or unknown where mokutil cannot list the keys
  listing=$(mokutil --list-enrolled 2>/dev/null) && listed=yes || listed=no
  case $listing in *'[key '*) listed=yes ;; esac
  # modinfo shows the issuer's name, which of a key that signed itself is its own.
  { printf '%s\n' "$listing"
    mokutil --db 2>/dev/null; } |
    sed -nE 's/^ *(Subject|Issuer): *(.*[ ,\/])?CN ?= ?//p' | sed -E 's/(, |\/)[A-Za-z]+ ?=.*//' >"$work/driver.keys"
  # "NAME: IDENTIFIER: X509.rsa ...", with the organization before a name that does not begin with it.
  sed -nE 's/^.* asymmetri +(.*): [0-9a-f]+: X509\..*$/\1/p' "$KERNEL_KEYS" 2>/dev/null |
    sed 'p; s/^[^:]*: //' >>"$work/driver.keys"
  if grep -q -x -F -e "$1" "$work/driver.keys"; then
    echo yes
  elif [ "$listed" = yes ]; then
    echo no
  else
    echo unknown
  fi
}

check_signature() { # before the modules that run make way for those on disk, now or at a boot
  ! runs_without_modules || return 0
  running_kernel=$(uname -r)
  ! unsigned_kernels | grep -q -x -F "$running_kernel" || fail_unsigned "$running_kernel"
  ! untrusted_kernels | grep -q -x -F "$running_kernel" || fail_untrusted "$running_kernel" ''
}

unknown_signer() { # [BEFORE] : a note on modules that wait, where nothing says whether the kernel takes them
  [ "$(secure_boot)" = enabled ] && [ "$(read_driver_loaded)" = other ] && ! runs_without_modules || return 0
  signer=$(module_signer "$(uname -r)")
  [ -n "$signer" ] && [ "$(signer_enrolled "$signer")" = unknown ] || return 0
  printf '%s' "${1:-}Secure Boot is on, and nothing tells here whether the key of the modules is enrolled: "
  printf '%s' "$signer" | printable
}

refuse_signatures() { # no module is missing
  kernels=$(unsigned_kernels | paste -s -d ' ' -)
  [ -z "$kernels" ] || fail_unsigned "$kernels"
  kernels=$(untrusted_kernels | paste -s -d ' ' -)
  [ -z "$kernels" ] || fail_untrusted "$kernels" ''
}

refuse_key() { # WORDS : the kernel itself has refused the modules
  [ -z "$(module_signer "$(uname -r)")" ] || fail_untrusted "$(uname -r)" "$1 "
}

fail_unsigned() { # KERNELS
  fail "the RDMA modules for ${1:-this kernel} have no signature and Secure Boot is on, so the kernel refuses" \
    'them: enrol a key (mokutil --import, at the console) and build them again with dkms, or switch Secure Boot off'
}

fail_untrusted() { # KERNELS WORDS-BEFORE
  signer=$(module_signer "${1%% *}")
  case $signer in
    *Mellanox* | *NVIDIA*) signed_by="the vendor's public key (mlnx_signing_key_pub.der for MLNX_OFED and DOCA-OFED)" ;;
    *'Secure Boot Module Signature key') signed_by=$SHIM_KEY ;;
    'DKMS module signing key') signed_by=$DKMS_KEY ;;
    *) signed_by='the certificate of that key' ;;
  esac
  left=' What runs was left loaded, and a reboot before that leaves this host without an RDMA driver'
  [ "$(read_driver_loaded)" != absent ] || left=''
  fail "${2}the RDMA modules for $1 are signed by '$(printf '%s' "$signer" | printable)', which is not" \
    'enrolled, and Secure Boot is on, so the kernel refuses them (Key was rejected by service). At the console:' \
    "mokutil --import $signed_by, reboot, confirm in MOK manager, and run again. Or switch Secure Boot off.$left"
}

check_secure_boot() { # modules that are built here are signed by a key of this host, or not at all
  [ "$(secure_boot)" = enabled ] || return 0
  own_key="$DKMS_KEY (dkms makes it when it builds)"
  ! command -v dpkg >/dev/null || own_key="$SHIM_KEY (update-secureboot-policy --new-key makes it)"
  for key_file in "$SHIM_KEY" "$DKMS_KEY"; do
    [ -r "$key_file" ] || continue
    own_key=$key_file
    case $(mokutil --test-key "$key_file" 2>&1) in *'is already enrolled'*) return 0 ;; esac
  done
  fail 'Secure Boot is on, and no key that signs modules on this host is enrolled, so the kernel would' \
    "refuse the driver (Key was rejected by service). At the console: mokutil --import $own_key, reboot, confirm in" \
    'MOK manager. Or switch Secure Boot off, or keep driver.kind: inbox. Nothing was installed'
}
