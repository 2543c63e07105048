// The certificates in tests of mappings: signed by a stand-in for a server, which knows which of them are valid.

import type { CertificatesOptions } from '../../../control-plane/certificates/options.ts'
import type { VaultStandIn } from '../certificates/authorities/vault-stand-in.ts'
import { ownCertificates } from '../certificates/certificates-options.ts'

export function certificatesOf({ url, token, mount, role }: VaultStandIn, timeoutMs = 60_000): CertificatesOptions {
  return { ...ownCertificates, backend: 'vault', vault: { url, token, mount, role, timeoutMs } }
}
