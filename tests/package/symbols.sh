#!/usr/bin/env bash
# Every program and library of the archives runs with glibc 2.35 and GCC 12's C++ runtime, and finds all its libraries,
# inside but for the C and C++ runtimes. Usage: symbols.sh ARCHIVE...
here=$(cd "$(dirname "$0")" && pwd)
. "$here/archives.sh"
unpack "$scratch/tree" "$@"

# limit of one family of symbol versions
limits=(GLIBC=2.35 GLIBCXX=3.4.30 CXXABI=1.3.13 GCC=12.0.0 GOMP=5.0.1 OMP=5.0.1 GOACC=2.0.1)
host_library='^(ld-linux-x86-64|lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s))\.so\.[0-9]+$'
unwanted='libmpi|libav(codec|format|util)|libhdf5|libcud|libnvidia|libnccl'

not_above() { # VERSION LIMIT
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$2" ]
}

check_versions() { # FILE
  local needed family version limit
  while read -r needed; do
    family=${needed%%_*} version=${needed#*_}
    for limit in "${limits[@]}"; do
      [ "$family" = "${limit%%=*}" ] || continue
      not_above "$version" "${limit#*=}" || fail "${1#"$tree/"} needs $needed; ${limit/=/_} is what hosts have"
    done
  done < <(objdump -T "$1" | grep -F '*UND*' | grep -oE '\b(GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP|GOACC)_[0-9][0-9.]*' | sort -u)
}

# A program or a module with all that it loads; the libraries that came along are found through their module alone.
check_libraries() { # FILE
  local name arrow path rest
  while read -r name arrow path rest; do
    case "$name" in
      linux-vdso.so.1 | statically) continue ;;
    esac
    name=$(basename "$name")
    if [ "$arrow" = "=>" ] && [ "$path" = "not" ]; then
      fail "${1#"$tree/"}: $name is not found"
    elif [[ $name =~ $host_library ]]; then
      continue
    elif [[ $path != "$scratch"/* ]]; then
      fail "${1#"$tree/"}: $name comes from the host ($path), and must be in the archive"
    fi
    [[ ! $name =~ $unwanted ]] || fail "${1#"$tree/"} is linked to $name"
  done < <(env -i PATH="$PATH" ldd "$1")
}

# What a module that uses the host's libraries is linked to: those that it names, and those of the C runtime.
check_host_libraries() { # FILE PATTERN
  local name
  while read -r name; do
    [[ $name =~ $host_library ]] || [[ $name =~ $2 ]] || fail "${1#"$tree/"} is linked to $name"
  done < <(objdump -p "$1" | sed -n 's/^ *NEEDED *//p')
}

count=0
while IFS= read -r -d '' file; do
  [ "$(head -c 4 "$file" | tail -c 3)" = "ELF" ] || continue
  count=$((count + 1))
  check_versions "$file"
  case "$(basename "$file")" in
    lib*) ;;
    stepgauge_video.so) check_host_libraries "$file" '^lib(avformat|avcodec|avutil|swscale)\.so\.[0-9]+$' ;;
    *) check_libraries "$file" ;;
  esac
done < <(find "$tree" -type f -size +3c -print0)

modules=("$tree"/lib/stepgauge/stepgauge_*.so)
[ "$count" -ge 3 ] && [ -x "$tree/bin/stepgauge" ] && [ -f "${modules[0]}" ] || fail "$count programs and libraries found: the archive is not whole"
[ ! -e "$tree/lib/stepgauge/stepgauge_mpi.so" ] || fail "the mpi module needs the host's MPI and must not travel"
inside=(hdf5 aec zlib gsl jansson yaml csv dnnl gomp opencl)
[ ! -e "$tree/lib/stepgauge/stepgauge_image.so" ] || inside+=(png jpeg z)
[ ! -e "$tree/lib/stepgauge/stepgauge_cuda.so" ] || inside+=(cudart)
for library in "${inside[@]}"; do
  [ -s "$tree/share/doc/stepgauge/licences/$library.txt" ] || fail "the licence of $library is missing"
done
grep -q '^gsl [0-9]' "$tree/share/doc/stepgauge/licences/sources.txt" || fail "the sources of the libraries are not named"
# a licence of every library that came along
for library in "$tree"/lib/stepgauge/lib*.so.*; do
  name=$(basename "$library" | sed -E 's/^lib([A-Za-z]+).*/\L\1/')
  [ -s "$tree/share/doc/stepgauge/licences/$name.txt" ] || fail "the licence of $(basename "$library") is missing"
done
finish
echo "$count programs and libraries: symbol versions, libraries and licences are as promised"
