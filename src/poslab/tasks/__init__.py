"""What is trained: classification (`vision`) and next-token prediction (`language`), as LightningModules."""
