// How a role asks the control plane in another process who may: its answers are remembered for seconds, and dropped with the changes that end them.

import type { OutageReport } from '../config/outage.ts'
import { openWhenThere, type ProcessScope } from '../config/run-process.ts'
import { splitSecrets } from '../config/secrets.ts'
import { readTlsFiles } from '../config/tls-files.ts'
import { cacheAccess } from '../control-plane/access-cache.ts'
import type { AccessControl } from '../control-plane/client.ts'
import { openRemoteAccess } from '../control-plane/remote/access.ts'
import type { ControlOptions } from '../control-plane/remote/options.ts'
import { ControlPlaneRefusalError } from '../control-plane/remote/requests.ts'

/** How long a grant is used at most while its end may go unheard. */
const unheardMsMax = 5_000

export interface RoleAccess {
  readonly access: AccessControl
  /**
   * Waits until the control plane was reached once; ends with the signal.
   *
   * @throws ControlPlaneRefusalError where it refuses the token, or something else answers at its address
   */
  reachFirst(signal: AbortSignal): Promise<void>
  /** False while it refuses the token, or something else answers at its address: no request can be served then. */
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
    reachFirst: signal =>
      openWhenThere({
        open: () => remote.reach(),
        isAway: error => !(error instanceof ControlPlaneRefusalError),
        outage,
        signal,
      }),
    isAccepted: () => remote.isAccepted(),
    check: () => remote.check(),
  }
}
