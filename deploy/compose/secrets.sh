#!/bin/sh
# Makes the secrets of deploy/compose.yaml and the certificate of its front, in deploy/compose/secrets (mode 0600), and deploy/.env.
# Existing files are kept. Further names of the front are arguments: sh deploy/compose/secrets.sh sluice.example.com 192.0.2.7
set -eu
command -v openssl > /dev/null || { echo 'there is no openssl: install it' >&2; exit 1; }
umask 077
cd "$(dirname "$0")"
mkdir -p secrets

# The containers run as the owner of these files, because a secret of compose has the owner and the mode of its file.
owner=$(id -u):$(id -g)
[ "$owner" != 0:0 ] || owner=65532:65532

# A file is complete, or not there.
put() {
  if [ -e "$1" ]; then
    cat > /dev/null
    echo "kept  $1"
    return
  fi
  cat > "$1.new"
  [ -s "$1.new" ] || { echo "$1: openssl gave nothing" >&2; exit 1; }
  if [ "$(id -u)" = 0 ]; then chown "$owner" "$1.new"; fi
  mv "$1.new" "$1"
  echo "made  $1"
}
random() { openssl rand -hex 24; }

openssl rand -base64 32 | tr '+/' '-_' | tr -d '=' | put secrets/master-key
for name in control-token admin-password grafana-password postgres-password influxdb-password influxdb-token mongodb-password; do
  random | put "secrets/$name"
done
echo "postgres://sluice:$(random)@postgres:5432/sluice" | put secrets/database-url
echo "postgres://writer:$(random)@postgres:5432/messages" | put secrets/relational-url
echo "postgres://reader:$(random)@postgres:5432/messages" | put secrets/relational-reader-url
echo "mongodb://writer:$(random)@mongodb:27017/messages" | put secrets/document-url
echo "mongodb://reader:$(random)@mongodb:27017/messages" | put secrets/document-reader-url

openssl ecparam -name prime256v1 -genkey -noout | put secrets/front-key.pem
names=DNS:localhost,IP:127.0.0.1,DNS:nginx
for name in "$@"; do
  case $name in
    *:*) names=$names,IP:$name ;;
    *[!0-9.]*) names=$names,DNS:$name ;;
    *) names=$names,IP:$name ;;
  esac
done
openssl req -x509 -new -key secrets/front-key.pem -sha256 -days 825 -subj /CN=sluice -addext "subjectAltName=$names" | put secrets/front.pem

if [ "$(id -u)" = 0 ]; then chown "$owner" secrets; fi
echo "SLUICE_USER=$owner" | put ../.env
