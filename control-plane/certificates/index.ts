// Opens the certificates service with the authority that its options choose.

import type { Logger } from '../../config/logger.ts'
import type { MasterKeys } from '../../config/secrets.ts'
import type { Database } from '../../database/database.ts'
import type { Writes } from '../writes.ts'
import type { Authority } from './authorities/authority.ts'
import { openBuiltinAuthority } from './authorities/builtin.ts'
import { openBuiltinStore } from './authorities/builtin-store.ts'
import { keepingCrl } from './authorities/kept-crl.ts'
import { openStepCa } from './authorities/step-ca.ts'
import { openVault } from './authorities/vault.ts'
import { openNewCsrs } from './csr.ts'
import type { CertificatesOptions } from './options.ts'
import { type Certificates, openCertificates } from './store.ts'

interface Parts {
  readonly database: Database
  readonly writes: Writes
  readonly masterKeys: MasterKeys
  readonly options: CertificatesOptions
  readonly logger: Logger
}

export function openCertificateService({ database, writes, masterKeys, options, logger }: Parts): Certificates {
  const authority = openAuthority(database, masterKeys, options)
  return openCertificates({ database, writes, authority, newCsrs: openNewCsrs(), perOwnerMax: options.perOwnerMax, logger })
}

function openAuthority(database: Database, masterKeys: MasterKeys, options: Parts['options']): Authority {
  const { mode, subject, crlUrl } = options
  if (mode === 'development' || options.backend === 'builtin') {
    // Without revocation there is no CRL to name.
    return openBuiltinAuthority({ store: openBuiltinStore(database, masterKeys), subject, crlUrl: mode === 'pki' ? crlUrl : undefined })
  }
  return keepingCrl(options.backend === 'step-ca' ? openStepCa(options.stepCa) : openVault(options.vault), database)
}
