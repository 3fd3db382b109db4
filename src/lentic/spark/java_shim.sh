#!/bin/sh
# The `bin/java` of the Java home that lentic.spark.session makes around a runtime.
#
# Takes the module that this runtime lacks out of the option --add-modules and passes every other
# word on as it is. Words after the main class are the program's and are not looked at, so options
# that take the next word as their value have to be known here.

lacking=jdk.incubator.vector

without_lacking() {
  kept=
  rest=$1,
  while [ -n "$rest" ]; do
    name=${rest%%,*}
    rest=${rest#*,}
    [ "$name" = "$lacking" ] || kept=${kept:+$kept,}$name
  done
  printf %s "$kept"
}

# Each word is taken from the front and, if it stays, put at the end: after one round the words are
# in order again.
left=$#
options=yes
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  if [ -n "$options" ] && [ "$left" -gt 0 ]; then
    case $word in
      --add-modules)
        kept=$(without_lacking "$1")
        shift
        left=$((left - 1))
        [ -z "$kept" ] || set -- "$@" "$word" "$kept"
        continue ;;
      -cp | -classpath | --class-path | -p | --module-path | --upgrade-module-path | \
        --limit-modules | --add-exports | --add-opens | --add-reads | --patch-module | \
        --enable-native-access | --source)
        set -- "$@" "$word" "$1"
        shift
        left=$((left - 1))
        continue ;;
    esac
  fi
  if [ -n "$options" ]; then
    case $word in
      --add-modules=*)
        kept=$(without_lacking "${word#*=}")
        [ -z "$kept" ] || set -- "$@" "--add-modules=$kept"
        continue ;;
      -jar | -m | --module | [!-@]*) options= ;;
    esac
  fi
  set -- "$@" "$word"
done

exec @JAVA@ "$@"
