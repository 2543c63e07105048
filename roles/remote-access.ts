// Access checks against the control plane in another process. Its answers are cached for seconds, and dropped when a change revokes them.

import { named } from '../config/options/variable.ts'
import type { OutageReport } from '../config/outage.ts'
import type { ProcessScope } from '../config/run-process.ts'
import { splitSecrets } from '../config/secrets.ts'
import { cacheAccess } from '../control-plane/access/cache.ts'
import type { AccessControl } from '../control-plane/client.ts'
import { openRemoteAccess } from '../control-plane/remote/access.ts'
import type { ControlOptions } from '../control-plane/remote/options.ts'
import { ControlPlaneRefusalError } from '../control-plane/remote/requests.ts'
import { readTlsFiles } from '../http/tls-files.ts'
import type { ServerCheck } from './checks.ts'

/** How long a cached grant is used at most while revocations may be missed. */
const unheardMsMax = 5_000

export interface RoleAccess {
  readonly access: AccessControl
  /** That the control plane is reached, accepts the token, and is one. Its run throws ControlPlaneRefusalError for what waiting cannot fix. */
  readonly startCheck: ServerCheck
  /** False while it rejects the token, or another server answers at its address: no request can be served then. */
  isAccepted(): boolean
  /** @throws Error while the control plane is away */
  check(): Promise<void>
}

/** @throws SecretError for a certificate that cannot be used */
export async function openRoleAccess(
  options: ControlOptions,
  outage: OutageReport,
  closeLater: ProcessScope['closeLater'],
): Promise<RoleAccess> {
  const { url, grantSeconds, grantsMax } = options
  const [token] = splitSecrets(options.token)
  const remote = openRemoteAccess({ url, token, tls: await readTlsFiles('control', options), outage })
  closeLater(() => remote.close())
  const access = cacheAccess(remote, { lifetimeMs: grantSeconds * 1000, unheardMsMax, entriesMax: grantsMax })
  closeLater(async () => access.close())
  return {
    access,
    startCheck: {
      name: 'control_plane',
      subject: 'the control plane',
      options: named('control.url'),
      isAway: error => !(error instanceof ControlPlaneRefusalError),
      async run() {
        await remote.reach()
        return `${new URL(url).origin} accepts this process`
      },
    },
    isAccepted: () => remote.isAccepted(),
    check: () => remote.check(),
  }
}
