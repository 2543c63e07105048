// Finds nginx with its module njs, and HAProxy, and installs Debian's packages if they are missing and that is possible.

import { missingService } from './apt.ts'

export const njsModule = '/usr/lib/nginx/modules/ngx_http_js_module.so'
export const streamModule = '/usr/lib/nginx/modules/ngx_stream_module.so'

export const missingNginx = (): string | undefined =>
  missingService('nginx', ['nginx-light', 'libnginx-mod-http-js'], ['/usr/sbin/nginx', njsModule])
export const missingNginxStream = (): string | undefined =>
  missingService('nginx', ['nginx-light', 'libnginx-mod-http-js', 'libnginx-mod-stream'], ['/usr/sbin/nginx', njsModule, streamModule])
export const missingHaproxy = (): string | undefined => missingService('haproxy', ['haproxy'], ['/usr/sbin/haproxy'])
