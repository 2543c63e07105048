// Finds nginx with its module njs, and HAProxy, and installs Debian's packages if they are missing and that is possible.

import { missingPackages } from './apt.ts'

export const njsModule = '/usr/lib/nginx/modules/ngx_http_js_module.so'

/** Debian's package would start its service, now and at each boot, on a port that may be in use. */
const startNothing = (service: string): string => `
    made=
    trap '[ -z "$made" ] || rm -f /usr/sbin/policy-rc.d; systemctl disable ${service} >/dev/null 2>&1 || true' EXIT
    if [ ! -e /usr/sbin/policy-rc.d ]; then
      made=yes
      printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
    fi`

export const missingNginx = (): string | undefined =>
  missing('nginx', ['nginx-light', 'libnginx-mod-http-js'], ['/usr/sbin/nginx', njsModule])
export const missingHaproxy = (): string | undefined => missing('haproxy', ['haproxy'], ['/usr/sbin/haproxy'])

/** Installs the packages if a file is missing. Returns why they are not available, with the command that would help. */
function missing(service: string, packages: readonly string[], files: readonly string[]): string | undefined {
  const check = files.map(file => `test -e ${file}`).join(' && ')
  const problem = `there is no ${packages.join(' with ')} on this machine; this installs it`
  return missingPackages({ packages, problem, check, before: startNothing(service) })
}
