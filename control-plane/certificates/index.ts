// The certificates service from its options: which authority signs, and what is kept of it.

import type { Logger } from '../../config/logger.ts'
import type { Database } from '../../config/postgres/database.ts'
import type { MasterKeys } from '../../config/secrets.ts'
import type { Writes } from '../writes.ts'
import type { Authority } from './authority.ts'
import { openBuiltinAuthority } from './builtin.ts'
import { openBuiltinStore } from './builtin-store.ts'
import { openNewCsrs } from './csr.ts'
import type { CertificatesOptions } from './options.ts'
import { openStepCa } from './step-ca.ts'
import { type Certificates, openCertificates } from './store.ts'
import { openVault } from './vault.ts'

interface Parts {
  readonly database: Database
  readonly writes: Writes
  readonly masterKeys: MasterKeys
  readonly options: CertificatesOptions
  readonly logger: Logger
}

export function openCertificateService({ database, writes, masterKeys, options, logger }: Parts): Certificates {
  return openCertificates({ database, writes, authority: openAuthority(database, masterKeys, options), newCsrs: openNewCsrs(), logger })
}

function openAuthority(database: Database, masterKeys: MasterKeys, options: CertificatesOptions): Authority {
  const { mode, backend, subject, crlUrl, stepCa, vault } = options
  if (mode === 'development' || backend === 'builtin') {
    // What can never be revoked names no CRL.
    return openBuiltinAuthority({ store: openBuiltinStore(database, masterKeys), subject, crlUrl: mode === 'pki' ? crlUrl : undefined })
  }
  return backend === 'step-ca' ? openStepCa(stepCa) : openVault(vault)
}
