# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, driver_source, ... are set by input.sh and driver.sh
# Modules of the RDMA driver for a kernel that has none: DKMS builds them, or DOCA's own tool, or the
# installer of MLNX_OFED's archive.

DOCA_KERNEL_SUPPORT=/opt/mellanox/doca/tools/doca-kernel-support
DOCA_PRODUCTS=/tmp

rebuild_modules() { # for each kernel without; a package that was just installed has built them
  check_packages
  missing_kernels >"$work/missing"
  [ -s "$work/missing" ] || refuse_signatures
  check_secure_boot
  check_disk
  while IFS= read -r kernel <&7; do
    check_kernel_sources "$kernel"
    if dkms status 2>/dev/null | grep -q '^mlnx-ofed-kernel[/,]'; then
      packages dkms autoinstall -k "$kernel"
    elif [ "$(read_driver kind)" = doca_ofed ]; then
      build_with_doca "$kernel"
    else
      build_with_installer "$kernel"
    fi
  done 7<"$work/missing"
  load_modules
}

build_with_doca() { # KERNEL : its product is a package with a repository, in a folder of its own
  umask 022 # packages expect it; what follows sets its own modes
  get_kernel_support "$1"
  packages "$DOCA_KERNEL_SUPPORT" -k "$1"
  # shellcheck disable=SC2012 # names without spaces; the newest is that of this run
  product=$(ls -t "$DOCA_PRODUCTS"/DOCA.*/doca-kernel-repo-*.rpm "$DOCA_PRODUCTS"/DOCA.*/doca-kernel-repo-*.deb \
    2>/dev/null | head -n 1)
  case $product in
    *.rpm)
      packages rpm -U --replacepkgs "$product"
      # A driver that is there already brings nothing along; the modules hang on a package named by the kernel.
      kernel_package=doca-kernel-$(printf '%s' "$1" | tr _- ..)
      [ -z "$(dnf -q repoquery "$kernel_package" 2>/dev/null)" ] || dnf_install "$kernel_package"
      dnf_install doca-ofed
      ;;
    *.deb)
      packages dpkg -i "$product"
      apt_get update
      apt_get -y install doca-ofed
      ;;
  esac
  has_modules "$1" "$DOCA_KERNEL_SUPPORT ran"
}

get_kernel_support() { # KERNEL : the tool comes with a package that doca-ofed does not ask for
  [ ! -x "$DOCA_KERNEL_SUPPORT" ] || return 0
  if command -v apt-get >/dev/null; then
    extra_output=$(apt_get -y install doca-extra 2>&1) || no_kernel_support "$1" "$extra_output"
  else
    extra_output=$(dnf_install doca-extra 2>&1) || no_kernel_support "$1" "$extra_output"
  fi
  packages_came 'install doca-extra' ''
  [ -x "$DOCA_KERNEL_SUPPORT" ] || no_kernel_support "$1" "it brought no $DOCA_KERNEL_SUPPORT"
}

no_kernel_support() { # KERNEL OUTPUT
  fail "kernel $1 has no modules of the driver: install doca-extra, whose tool builds them, or a kernel for which the" \
    "driver's repository has them ($(printf '%s\n' "$2" | sed 's/^railyard: //' | head -n 1))"
}

build_with_installer() { # KERNEL : only an archive has an installer; a repository may have them ready
  case $driver_source in
    *.tgz) driver_installer="--add-kernel-support --kernel $1 --kernel-sources /lib/modules/$1/build" ;;
  esac
  driver_installed=no # once a kernel
  install_driver
  has_modules "$1" 'its packages were installed again'
  [ "$1" = "$(uname -r)" ] || ! runs_without_modules ||
    fail "the driver's installer builds for one kernel: $1 has its modules now, and $(uname -r)," \
      'which runs, has none: reboot the host, and run again'
}

has_modules() { # KERNEL WORDS
  ! missing_kernels | grep -q -x -F "$1" ||
    fail "kernel $1 has no modules of the driver, though $2: take a release of the driver that knows this kernel, or" \
      'boot a kernel for which its repository has them'
}
