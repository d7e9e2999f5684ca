"""Authentication providers for remote readers, from the configuration."""

from pathlib import Path

from tiercel.rpc.authentication import KerberosServer, NtlmServer, acceptors, kerberos_is_available
from tiercel.rpc.security import Providers
from tiercel.security.accounts import Accounts, Directory
from tiercel.server import log
from tiercel.server.account_file import AccountFile
from tiercel.server.config import AccountOptions, ConfigError


def providers(options: AccountOptions, computer_name: str) -> Providers:
    """NTLM if there is an account file, Kerberos if there is a keytab; otherwise none."""
    accounts: Directory = Accounts()
    refusals = log.Repeated("logon_refused")
    ntlm = kerberos = None
    if options.file:
        accounts = AccountFile(
            Path(options.file), lambda problem: log.error("accounts_unusable", reason=problem)
        )
        ntlm = NtlmServer(accounts, computer_name, report=refusals)
    if options.keytab:
        if not kerberos_is_available():
            raise ConfigError(
                "[accounts] keytab: Kerberos is not installed; run pip install tiercel[kerberos]"
            )
        kerberos = KerberosServer(accounts, Path(options.keytab), refusals)
    return acceptors(ntlm, kerberos)
