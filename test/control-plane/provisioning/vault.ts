// The certificates of tests of mappings: signed by a server outside, which tells what of them is valid.

import type { CertificatesOptions } from '../../../control-plane/certificates/options.ts'
import { ownCertificates } from '../certificates/certificates-options.ts'
import type { VaultStandIn } from '../certificates/vault-stand-in.ts'

export function certificatesOf({ url, token, mount, role }: VaultStandIn): CertificatesOptions {
  return { ...ownCertificates, backend: 'vault', vault: { url, token, mount, role, timeoutMs: 5_000 } }
}
